module macbatch

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1
	github.com/google/btree v1.1.3
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.50.0 // indirect
