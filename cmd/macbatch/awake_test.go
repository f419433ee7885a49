package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestAwake(t *testing.T) {
	calls := make(chan []string, 10)
	a := &awake{run: func(ctx context.Context, path string, args ...string) {
		calls <- append([]string{path}, args...)
		<-ctx.Done()
		calls <- nil
	}}
	a.hold(false)
	for range 2 {
		a.hold(true)
		a.hold(true)
		want := []string{"/usr/bin/caffeinate", "-i", "-w", fmt.Sprint(os.Getpid())}
		if got := <-calls; !slices.Equal(got, want) {
			t.Fatalf("ran %q, want %q", got, want)
		}
		a.hold(false)
		if got := <-calls; got != nil {
			t.Fatalf("ran %q again while it ran", got)
		}
	}
	a.hold(true)
	<-calls
	a.close()
	if got := <-calls; got != nil || len(calls) != 0 {
		t.Fatalf("after close: %q and %d more", got, len(calls))
	}
	(*awake)(nil).hold(true)
	(*awake)(nil).close()
}
