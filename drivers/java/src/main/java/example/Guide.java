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
 * The Java of the guide, word for word ({@code docs/code} compares them), and what it has to do.
 * Ends with 1 when an account holds what it should not.
 *
 * <p>{@code drivers/run} puts the addresses of its gateways into a copy of this file.
 */
public final class Guide {
    private Guide() {}

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create("mongodb://127.0.0.1:27117")) {
            MongoCollection<Document> accounts = client.getDatabase("bank").getCollection("accounts");
            accounts.drop();
            accounts.insertMany(List.of(account("ann", 100), account("bob", 0)));
            transfer(client, accounts);
            mustBe(accounts, Map.of("ann", 90, "bob", 10));
            accounts.drop();
        }
    }

    private static void transfer(MongoClient client, MongoCollection<Document> accounts) {
        try (ClientSession session = client.startSession()) {
            session.withTransaction(() -> {
                accounts.updateOne(session, eq("ann"), inc("balance", -10));
                accounts.updateOne(session, eq("bob"), inc("balance", 10));
                return null;
            });
        }
    }

    private static Document account(String id, int balance) {
        return new Document("_id", id).append("balance", balance);
    }

    private static void mustBe(MongoCollection<Document> accounts, Map<String, Integer> expected) {
        Map<String, Integer> found = new TreeMap<>();
        accounts.find().forEach(account -> found.put(account.getString("_id"), account.getInteger("balance")));
        if (!found.equals(expected)) {
            throw new AssertionError("wrong: " + found);
        }
        System.out.println(found);
    }
}
