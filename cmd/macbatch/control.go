package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"macbatch/lease/api"
	"macbatch/lease/api/openai"
	"macbatch/lease/heap"
	"macbatch/lease/join"
)

func controlCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "control",
		Usage:     "own the store and serve the API: the one host that decides",
		UsageText: "macbatch control [--data FOLDER] [--listen HOST:PORT]",
		Description: "On an address of other machines, such as 0.0.0.0:7373, it talks TLS 1.3, with a key of its own that others\n" +
			"know by its pin. macbatch join new lets them in.",
		Flags: []cli.Flag{
			dataFlag("`FOLDER` for the store, the accepted bytes and the admin token", "control"),
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` to listen on", Value: defaultListen, EnvVars: []string{"MACBATCH_LISTEN"}},
			&cli.StringSliceFlag{Name: "host", Usage: "another `NAME` or address by which others reach this host; the best first; may be repeated"},
			&cli.BoolFlag{Name: "tls", Usage: "talk TLS on a loopback address too; elsewhere that is so anyway"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log each request to standard error"},
		},
		Action: func(x *cli.Context) error { return c.control(x) },
	}
}

// closeGrace is how long open requests may go on when the control plane leaves.
const closeGrace = 3 * time.Second

// placeOf reads where a control plane is to listen.
func placeOf(x *cli.Context) (*place, error) {
	listen := x.String("listen")
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, usagef("--listen %q: must be HOST:PORT", listen)
	}
	at := &place{host: host, names: x.StringSlice("host"), tls: x.Bool("tls") || !join.Loopback(host)}
	if x.IsSet("tls") && !x.Bool("tls") && at.tls {
		return nil, usagef("--listen %q: without TLS only a loopback address is allowed, such as %s", listen, defaultListen)
	}
	for _, n := range at.names {
		if n == "" || strings.ContainsAny(n, ":/ []") && net.ParseIP(n) == nil {
			return nil, usagef("--host %q: must be a name or an address, without port", n)
		}
	}
	return at, nil
}

func (c *command) control(x *cli.Context) (err error) {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	listen := x.String("listen")
	at, err := placeOf(x)
	if err != nil {
		return err
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
	defer func() { err = errors.Join(err, s.close()) }()
	c.started(data)
	if _, err := s.admin(data); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}).Listen(x.Context, "tcp", listen)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return hint(fmt.Errorf("listen on %q: %w", listen, err), "--listen names another address, such as 127.0.0.1:0 for any free port")
	}
	if at.host, at.port, err = net.SplitHostPort(l.Addr().String()); err != nil {
		return errors.Join(fmt.Errorf("listen on %q: %w", listen, err), l.Close())
	}
	if at.tls {
		config, pin, err := join.Server(data, append(at.hosts(), "localhost", "127.0.0.1", "::1"), time.Now())
		if err != nil {
			return errors.Join(err, l.Close())
		}
		l, at.pin = tls.NewListener(l, config), pin.String()
	}
	if err := at.write(data); err != nil {
		return errors.Join(err, l.Close())
	}
	server := api.NewServer(api.NewHandler(api.Options{
		Authenticate: s.Authenticate, Control: s.As, Hosts: append(at.hosts(), "localhost"), Reach: at.reach, Beside: openai.Beside(s, nil), Log: log,
	}), log)
	fmt.Fprintf(c.stderr, "control plane at %s, data in %s\n", at.here().URLs[0], printable(data))
	if at.tls {
		fmt.Fprintf(c.stderr, "reached by others at %s; its key is pinned as %s\n", printable(strings.Join(at.reach().URLs, " ")), at.pin)
	}
	fmt.Fprintf(c.stderr, "your token: %s; for others: macbatch join new --role worker|submitter|reader|admin --project default\n", printable(filepath.Join(data, tokenName)))

	ctx, stop := context.WithCancel(x.Context)
	defer stop()
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	var group errgroup.Group
	group.Go(func() error {
		defer stop()
		return s.Run(storeCtx)
	})
	group.Go(func() error { return s.index(ctx) })
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
