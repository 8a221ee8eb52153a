// Command etcd is etcd itself, built from its published modules: a rival that the benchmarks start.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
