// Command macbatch runs batch work on the machines somebody already owns: one
// control plane, many workers, and the clients that submit and gather.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	leave, leaving := context.WithCancel(context.Background())
	now, hurry := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go heed(signals, leaving, hurry)
	os.Exit(run(context.WithValue(leave, hurryKey{}, now), os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// oneSignal is how long a signal is one with the next: some senders signal the
// process and its group at once.
const oneSignal = 250 * time.Millisecond

// heed waits for signals: the first asks to leave gracefully, the second to stop at
// once, a third kills, as ever.
func heed(signals chan os.Signal, leaving, hurry func()) {
	var last time.Time
	for _, do := range []func(){leaving, hurry} {
		for range signals {
			if time.Since(last) >= oneSignal {
				break
			}
		}
		last = time.Now()
		do()
	}
	time.AfterFunc(oneSignal, func() { signal.Stop(signals) })
}

// hurryKey finds, in a command's context, the one that ends when everything is to
// stop at once.
type hurryKey struct{}

// run is the whole command: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &command{stdin: stdin, stdout: stdout, stderr: stderr, env: os.LookupEnv}
	app := newApp(c)
	args, err := permute(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	return c.report(err)
}
