package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// place is where a control plane listens and what it is called there.
type place struct {
	tls   bool
	names []string // that were given
	host  string   // of --listen
	port  string
	pin   string
}

func hostPort(host, port string) string { return net.JoinHostPort(host, port) }

// everywhere reports whether the control plane listens on all addresses.
func (p *place) everywhere() bool {
	ip := net.ParseIP(p.host)
	return p.host == "" || ip != nil && ip.IsUnspecified()
}

// hosts are the names and addresses that others may use: those that were given
// first, then those of this host, the addresses that are routed before names.
func (p *place) hosts() []string {
	list := slices.Clone(p.names)
	if !p.everywhere() {
		return append(list, p.host)
	}
	addrs, _ := net.InterfaceAddrs() // none: the names remain
	for _, v4 := range []bool{true, false} {
		for _, a := range addrs {
			ip, _, err := net.ParseCIDR(a.String())
			if err != nil || !ip.IsGlobalUnicast() || ip.IsLoopback() || ip.To4() != nil != v4 {
				continue
			}
			list = append(list, ip.String())
		}
	}
	if name, err := os.Hostname(); err == nil {
		list = append(list, strings.ToLower(name))
		if short, _, _ := strings.Cut(name, "."); short != "" {
			list = append(list, strings.ToLower(short)+".local") // as Macs call each other
		}
	}
	return slices.Compact(list)
}

func (p *place) url(host string) string {
	scheme := "http://"
	if p.tls {
		scheme = "https://"
	}
	return scheme + hostPort(host, p.port)
}

// reach tells others where to come.
func (p *place) reach() lease.Reach {
	r := lease.Reach{Pin: p.pin}
	for _, h := range p.hosts() {
		r.URLs = append(r.URLs, p.url(h))
	}
	return r
}

// here tells the same to commands on this host.
func (p *place) here() lease.Reach {
	host := p.host
	if p.everywhere() {
		host = "127.0.0.1"
	}
	return lease.Reach{URLs: []string{p.url(host)}, Pin: p.pin}
}

// write tells commands on this host, in the control plane's data folder.
func (p *place) write(dir string) error {
	var b strings.Builder
	err := wire.Encode(&b, p.here())
	if err == nil {
		err = writeSecret(filepath.Join(dir, reachName), b.String()+"\n")
	}
	if err != nil {
		return fmt.Errorf("control plane's folder: %w", err)
	}
	return nil
}
