// The Go of the guide, word for word (docs/code compares them), and what it has to do. Ends with 1
// when an account holds what it should not.
//
// drivers/run puts the addresses of its gateways into a copy of this file.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := mongo.Connect(ctx, options.Client().ApplyURI("mongodb://127.0.0.1:27117"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	if err := run(ctx, client, client.Database("bank").Collection("accounts")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *mongo.Client, accounts *mongo.Collection) error {
	if err := accounts.Drop(ctx); err != nil {
		return err
	}
	before := []any{bson.M{"_id": "ann", "balance": 100}, bson.M{"_id": "bob", "balance": 0}}
	if _, err := accounts.InsertMany(ctx, before); err != nil {
		return err
	}
	if err := transfer(ctx, client, accounts); err != nil {
		return err
	}
	for id, balance := range map[string]int{"ann": 90, "bob": 10} {
		count, err := accounts.CountDocuments(ctx, bson.M{"_id": id, "balance": balance})
		if err != nil {
			return err
		}
		if count != 1 {
			return fmt.Errorf("wrong: %s has not %d", id, balance)
		}
	}
	fmt.Println("ann has 90, bob has 10")
	return accounts.Drop(ctx)
}

func transfer(ctx context.Context, client *mongo.Client, accounts *mongo.Collection) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)

	_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) {
		if _, err := accounts.UpdateByID(ctx, "ann", bson.M{"$inc": bson.M{"balance": -10}}); err != nil {
			return nil, err
		}
		return accounts.UpdateByID(ctx, "bob", bson.M{"$inc": bson.M{"balance": 10}})
	})
	return err
}
