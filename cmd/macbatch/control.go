package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"macbatch/lease/api"
	"macbatch/lease/heap"
)

func controlCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "control",
		Usage:     "own the store and serve the API: the one host that decides",
		UsageText: "macbatch control [--data FOLDER] [--listen HOST:PORT]",
		Flags: []cli.Flag{
			dataFlag("`FOLDER` for the store, the accepted bytes and the admin token", "control"),
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` to listen on; loopback only", Value: defaultListen, EnvVars: []string{"MACBATCH_LISTEN"}},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log each request to standard error"},
		},
		Action: func(x *cli.Context) error { return c.control(x) },
	}
}

// closeGrace is how long open requests may go on when the control plane leaves.
const closeGrace = 3 * time.Second

func (c *command) control(x *cli.Context) (err error) {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	listen := x.String("listen")
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("--listen %q: must be HOST:PORT", listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("--listen %q: without TLS only a loopback address is allowed, such as %s", listen, defaultListen)
	}
	data, err := c.data(x, "control")
	if err != nil {
		return err
	}
	log := c.logger(x.Bool("verbose"))
	s, err := openLocal(data, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	if _, err := s.admin(data); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := api.NewServer(api.NewHandler(api.Options{
		Authenticate: s.Authenticate, Control: s.As, Hosts: []string{host, "localhost"}, Log: log,
	}), log)
	url := "http://" + l.Addr().String()
	fmt.Fprintf(c.stderr, "control plane at %s, data in %s\n", url, printable(data))
	fmt.Fprintf(c.stderr, "workers:  macbatch serve --control %s --token-file %s --root NAME=FOLDER\n", url, printable(filepath.Join(data, tokenName)))
	fmt.Fprintf(c.stderr, "clients:  macbatch submit --control %s --token-file %s library NAME:\n", url, printable(filepath.Join(data, tokenName)))

	ctx, stop := context.WithCancel(x.Context)
	defer stop()
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	var group errgroup.Group
	group.Go(func() error {
		defer stop()
		return s.Run(storeCtx)
	})
	group.Go(func() error {
		heap.Run(ctx)
		return nil
	})
	group.Go(func() error {
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		_ = server.Close() // long polls end here; their workers ask again
	}
	stopStore()
	return group.Wait()
}
