package example;

import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.core.NestedExceptionUtils;
import org.springframework.core.retry.RetryPolicy;
import org.springframework.core.retry.RetryTemplate;
import org.springframework.data.annotation.Id;
import org.springframework.data.mongodb.MongoTransactionManager;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.SimpleMongoClientDatabaseFactory;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * A bank with eight tellers at once, with Spring Data MongoDB. Ends with 1 when a transfer is lost
 * or made twice.
 */
public final class Workers {
    private static final int TELLERS = 8, TRANSFERS = 10, ACCOUNTS = 4, BALANCE = 1_000, RETRIES = 1_000;
    private static final String DATABASE = "bank_spring";

    private final MongoTemplate template;
    private final TransactionTemplate transactions;
    /**
     * Runs a transaction again when another one came in between: Spring's transactions do not do
     * that by themselves.
     */
    private final RetryTemplate retries = new RetryTemplate(RetryPolicy.builder()
        .maxRetries(RETRIES)
        .delay(Duration.ofMillis(10))
        .jitter(Duration.ofMillis(10))
        .predicate(Workers::isTransient)
        .build());

    private Workers(MongoClient client) {
        var factory = new SimpleMongoClientDatabaseFactory(client, DATABASE);
        template = new MongoTemplate(factory);
        transactions = new TransactionTemplate(new MongoTransactionManager(factory));
    }

    /** Who has how much. */
    public static class Account {
        @Id public int id;
        public int balance;

        static Account of(int id) {
            Account account = new Account();
            account.id = id;
            account.balance = BALANCE;
            return account;
        }
    }

    /** How many were made. */
    public static class Transfers {
        @Id public int id;
        public int made;
    }

    public static void main(String[] arguments) throws Exception {
        String uri = System.getenv().getOrDefault("MONGODB_URI", "mongodb://127.0.0.1:27117");
        try (MongoClient client = MongoClients.create(uri)) {
            client.getDatabase(DATABASE).drop();
            new Workers(client).run();
            client.getDatabase(DATABASE).drop();
        }
    }

    private void run() throws Exception {
        for (int id = 0; id < ACCOUNTS; id++) {
            template.insert(Account.of(id));
        }
        template.insert(new Transfers());
        ExecutorService tellers = Executors.newFixedThreadPool(TELLERS);
        try {
            List<Future<Void>> all = new ArrayList<>();
            for (int number = 0; number < TELLERS; number++) {
                all.add(tellers.submit((Callable<Void>) this::work));
            }
            for (Future<Void> one : all) {
                one.get();
            }
        } finally {
            tellers.shutdownNow();
        }
        int made = template.findById(0, Transfers.class).made;
        int total = template.findAll(Account.class).stream().mapToInt(account -> account.balance).sum();
        System.out.println(made + " transfers, " + total + " in all accounts");
        if (made != TELLERS * TRANSFERS || total != ACCOUNTS * BALANCE) {
            throw new AssertionError("wrong: " + TELLERS * TRANSFERS + " transfers of " + ACCOUNTS * BALANCE);
        }
    }

    /** What a teller does. */
    private Void work() throws Exception {
        for (int done = 0; done < TRANSFERS; done++) {
            retries.execute(() -> transactions.execute(status -> transfer()));
        }
        return null;
    }

    private static boolean isTransient(Throwable error) {
        return NestedExceptionUtils.getMostSpecificCause(error) instanceof MongoException cause
            && cause.hasErrorLabel(MongoException.TRANSIENT_TRANSACTION_ERROR_LABEL);
    }

    /** Reads three documents, changes them, and saves them. */
    private Transfers transfer() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int from = random.nextInt(ACCOUNTS), to = (from + random.nextInt(1, ACCOUNTS)) % ACCOUNTS;
        Transfers transfers = template.findById(0, Transfers.class);
        Account payer = template.findById(from, Account.class), payee = template.findById(to, Account.class);
        int amount = random.nextInt(1, 11);
        transfers.made += 1;
        payer.balance -= amount;
        payee.balance += amount;
        template.save(payer);
        template.save(payee);
        return template.save(transfers);
    }
}
