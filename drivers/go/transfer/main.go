// A bank: one transfer that is committed, and one that is rolled back. Ends with 1 when an account
// holds what it should not.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

type account struct {
	ID      string `bson:"_id"`
	Balance int    `bson:"balance"`
}

var errNotEnough = errors.New("the payer has less than that")

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		uri = "mongodb://127.0.0.1:27117"
	}
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	defer client.Disconnect(ctx)
	accounts := client.Database("bank_go").Collection("accounts")
	if err := accounts.Drop(ctx); err != nil {
		return err
	}
	if _, err := accounts.InsertMany(ctx, []any{account{"alice", 100}, account{"bob", 0}}); err != nil {
		return err
	}
	if err := transfer(ctx, accounts, "alice", "bob", 30); err != nil {
		return err
	}
	if err := mustBe(ctx, accounts, 70, 30); err != nil {
		return err
	}
	if err := transfer(ctx, accounts, "alice", "bob", 1000); !errors.Is(err, errNotEnough) {
		return fmt.Errorf("wrong: a transfer that cannot be made ended with %v", err)
	}
	fmt.Println("rolled back:", errNotEnough)
	if err := mustBe(ctx, accounts, 70, 30); err != nil {
		return err
	}
	return accounts.Drop(ctx)
}

// Both accounts change, or neither.
func transfer(ctx context.Context, accounts *mongo.Collection, payer, payee string, amount int) error {
	session, err := accounts.Database().Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	// Runs the function again when another transaction came in between, and sends the commit again
	// when its answer was lost.
	_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) {
		if err := add(ctx, accounts, payee, amount); err != nil {
			return nil, err
		}
		if err := add(ctx, accounts, payer, -amount); err != nil {
			return nil, err
		}
		var after account
		if err := accounts.FindOne(ctx, bson.M{"_id": payer}).Decode(&after); err != nil {
			return nil, err
		}
		if after.Balance < 0 {
			return nil, errNotEnough
		}
		return nil, nil
	})
	return err
}

func add(ctx context.Context, accounts *mongo.Collection, id string, amount int) error {
	_, err := accounts.UpdateByID(ctx, id, bson.M{"$inc": bson.M{"balance": amount}})
	return err
}

func mustBe(ctx context.Context, accounts *mongo.Collection, alice, bob int) error {
	cursor, err := accounts.Find(ctx, bson.M{}, options.Find().SetSort(bson.M{"_id": 1}))
	if err != nil {
		return err
	}
	var found []account
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	if len(found) != 2 || found[0] != (account{"alice", alice}) || found[1] != (account{"bob", bob}) {
		return fmt.Errorf("wrong: %v", found)
	}
	fmt.Println(found)
	return nil
}
