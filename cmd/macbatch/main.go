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
	// The first signal asks to leave gracefully; a later one kills, as ever. Some
	// senders signal the process and its group at once: that is one.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

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
