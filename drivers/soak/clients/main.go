// Clients of the soak with the Go driver, a goroutine each. See README.md for what all three
// programs do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

type counts struct {
	sync.Mutex `json:"-"`
	Committed  int `json:"committed"`
	Failed     int `json:"failed"`
	Unknown    int `json:"unknown"`
	Read       int `json:"read"`
}

type soak struct {
	client   *mongo.Client
	accounts int
	pause    time.Duration
	name     string
	counts   counts
}

func main() {
	over, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	uri := options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetMaxPoolSize(0)
	client, err := mongo.Connect(context.Background(), uri.SetServerSelectionTimeout(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(os.Getenv("SOAK_PAUSE_S"), 64)
	if err != nil {
		log.Fatal(err)
	}
	s := &soak{client: client, accounts: number("SOAK_ACCOUNTS"), name: os.Getenv("SOAK_NAME")}
	s.pause = time.Duration(seconds * float64(time.Second))
	var clients sync.WaitGroup
	for which := 0; which < number("SOAK_CLIENTS"); which++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			s.live(over, which)
		}()
	}
	for over.Err() == nil {
		sleep(over, time.Second/2)
		s.tell()
	}
	clients.Wait()
	if err := client.Disconnect(context.Background()); err != nil {
		log.Print(err)
	}
	s.tell()
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return n
}

// Sleeps for the pause, or until the program is to end.
func sleep(over context.Context, pause time.Duration) {
	select {
	case <-over.Done():
	case <-time.After(pause):
	}
}

func (s *soak) tell() {
	s.counts.Lock()
	defer s.counts.Unlock()
	counts, _ := json.Marshal(&s.counts)
	fmt.Println(string(counts))
}

func (s *soak) live(over context.Context, which int) {
	sleep(over, time.Duration(rand.Float64()*float64(s.pause)))
	for n := 1; over.Err() == nil; n++ {
		if rand.Float64() < 0.8 {
			s.transfer(which, n)
		} else {
			s.read()
		}
		sleep(over, time.Duration((0.5+rand.Float64())*float64(s.pause)))
	}
}

func (s *soak) transfer(which, n int) {
	payer := rand.Intn(s.accounts)
	payee := (payer + 1 + rand.Intn(s.accounts-1)) % s.accounts
	entry := bson.M{"_id": fmt.Sprintf("%s-%d-%d", s.name, which, n), "by": s.name, "from": payer, "to": payee, "amount": 1}
	bank := s.client.Database("soak")
	body := func(ctx mongo.SessionContext) (any, error) {
		if _, err := bank.Collection("accounts").UpdateByID(ctx, payer, bson.M{"$inc": bson.M{"balance": -1}}); err != nil {
			return nil, err
		}
		if _, err := bank.Collection("accounts").UpdateByID(ctx, payee, bson.M{"$inc": bson.M{"balance": 1}}); err != nil {
			return nil, err
		}
		return bank.Collection("ledger").InsertOne(ctx, entry)
	}
	ctx := context.Background()
	err := s.client.UseSession(ctx, func(ctx mongo.SessionContext) error {
		_, err := ctx.WithTransaction(ctx, body)
		return err
	})
	s.counts.Lock()
	defer s.counts.Unlock()
	var refused mongo.ServerError
	switch {
	case err == nil:
		s.counts.Committed++
	// Only the ledger shows whether it was committed.
	case !errors.As(err, &refused) || refused.HasErrorLabel("UnknownTransactionCommitResult") || mongo.IsNetworkError(err):
		s.counts.Unknown++
	default:
		s.counts.Failed++
	}
}

func (s *soak) read() {
	ctx := context.Background()
	options := options.Find().SetBatchSize(20).SetLimit(100)
	cursor, err := s.client.Database("soak").Collection("ledger").Find(ctx, bson.M{}, options)
	if err == nil {
		// Some cursors are left in the middle.
		for most := []int{1, 30, 100}[rand.Intn(3)]; most > 0 && cursor.Next(ctx); most-- {
		}
		err = cursor.Err()
		_ = cursor.Close(ctx)
	}
	s.counts.Lock()
	defer s.counts.Unlock()
	if err == nil {
		s.counts.Read++
	} else {
		s.counts.Failed++
	}
}
