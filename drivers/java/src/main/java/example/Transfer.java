package example;

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.inc;

import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bson.Document;

/**
 * A bank: one transfer that is committed, and one that is rolled back. Ends with 1 when an account
 * holds what it should not.
 */
public final class Transfer {
    private final MongoClient client;
    private final MongoCollection<Document> accounts;

    private Transfer(MongoClient client) {
        this.client = client;
        this.accounts = client.getDatabase("bank_java").getCollection("accounts");
    }

    public static void main(String[] arguments) {
        String uri = System.getenv().getOrDefault("MONGODB_URI", "mongodb://127.0.0.1:27117");
        try (MongoClient client = MongoClients.create(uri)) {
            new Transfer(client).run();
        }
    }

    private void run() {
        accounts.drop();
        accounts.insertMany(List.of(account("alice", 100), account("bob", 0)));
        transfer("alice", "bob", 30);
        mustBe(70, 30);
        try {
            transfer("alice", "bob", 1000);
            throw new AssertionError("alice had enough");
        } catch (NotEnough error) {
            System.out.println("rolled back: " + error.getMessage());
        }
        mustBe(70, 30);
        accounts.drop();
    }

    private static Document account(String id, int balance) {
        return new Document("_id", id).append("balance", balance);
    }

    /** Both accounts change, or neither. */
    private void transfer(String payer, String payee, int amount) {
        try (ClientSession session = client.startSession()) {
            // Runs the function again when another transaction came in between, and sends the
            // commit again when its answer was lost.
            session.withTransaction(() -> {
                accounts.updateOne(session, eq(payee), inc("balance", amount));
                accounts.updateOne(session, eq(payer), inc("balance", -amount));
                if (accounts.find(session, eq(payer)).first().getInteger("balance") < 0) {
                    throw new NotEnough(payer + " has less than " + amount);
                }
                return null;
            });
        }
    }

    private void mustBe(int alice, int bob) {
        Map<String, Integer> found = new TreeMap<>();
        accounts.find().forEach(account -> found.put(account.getString("_id"), account.getInteger("balance")));
        if (!found.equals(Map.of("alice", alice, "bob", bob))) {
            throw new AssertionError("wrong: " + found);
        }
        System.out.println(found);
    }

    /** The payer has less than that. */
    private static final class NotEnough extends RuntimeException {
        NotEnough(String message) {
            super(message);
        }
    }
}
