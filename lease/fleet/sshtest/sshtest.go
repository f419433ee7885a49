// Package sshtest runs real sshd processes on loopback addresses, each a host of its own
// with a home, a key and a port, for tests of what goes over ssh.
package sshtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Host is one that is to be run.
type Host struct {
	Name  string
	Down  bool   // nothing listens at its port
	Force string // a command that runs instead of what is asked for
	Path  string // folders before the usual ones of its programs
}

// Net are hosts that run.
type Net struct {
	Program string // ssh
	Config  string // of ssh: it knows the hosts, their keys and ours
	Dir     string
}

// Home is a host's home.
func (n *Net) Home(host string) string { return filepath.Join(n.Dir, host, "home") }

// Start runs the hosts until the test ends. Where sshd is missing the test is skipped;
// under CI it fails.
func Start(t testing.TB, hosts ...Host) *Net {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
		_, err = os.Stat(sshd)
	}
	n := &Net{Dir: t.TempDir()}
	if err == nil {
		n.Program, err = exec.LookPath("ssh")
	}
	if err != nil {
		if v, _ := os.LookupEnv("CI"); v != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	me, err := user.Current()
	must(t, err)
	if me.Uid == "0" {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // its privileges are dropped there
	}
	key := filepath.Join(n.Dir, "key")
	keygen(t, key)
	public, err := os.ReadFile(key + ".pub")
	must(t, err)
	var config, known strings.Builder
	for _, h := range hosts {
		port := n.host(t, sshd, h, public, &known)
		fmt.Fprintf(&config, "Host %s\n\tHostName 127.0.0.1\n\tPort %d\n", h.Name, port)
	}
	fmt.Fprintf(&config, "Host *\n\tUser %s\n\tIdentityFile %s\n\tIdentitiesOnly yes\n\tIdentityAgent none\n\tUserKnownHostsFile %s\n\tGlobalKnownHostsFile /dev/null\n\tStrictHostKeyChecking yes\n",
		me.Username, key, filepath.Join(n.Dir, "known"))
	n.Config = filepath.Join(n.Dir, "config")
	must(t, os.WriteFile(n.Config, []byte(config.String()), 0o600))
	must(t, os.WriteFile(filepath.Join(n.Dir, "known"), []byte(known.String()), 0o600))
	return n
}

// host makes one, and runs it if it is not down. It returns its port.
func (n *Net) host(t testing.TB, sshd string, h Host, public []byte, known *strings.Builder) int {
	t.Helper()
	dir := filepath.Join(n.Dir, h.Name)
	must(t, os.MkdirAll(filepath.Join(dir, "home"), 0o700))
	keygen(t, filepath.Join(dir, "host"))
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "keys"), public, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	fmt.Fprintf(known, "[127.0.0.1]:%d %s", port, hostKey)
	if h.Down {
		must(t, l.Close())
		return port
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	if h.Path != "" {
		path = h.Path + ":" + path
	}
	text := fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\nLogLevel ERROR\nSetEnv HOME=%s PATH=%s\n",
		filepath.Join(dir, "host"), filepath.Join(dir, "keys"), n.Home(h.Name), path)
	if h.Force != "" {
		text += "ForceCommand " + h.Force + "\n"
	}
	conf := filepath.Join(dir, "sshd_config")
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	// sshd -i serves the one connection that it is given: the port is ours all along.
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(l, sshd, conf)
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return port
}

// serve gives each connection an sshd of its own, until the listener is closed; then
// they end.
func serve(l net.Listener, sshd, conf string) {
	var running []*exec.Cmd
	defer func() {
		for _, cmd := range running {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f, err := c.(*net.TCPConn).File()
		if err == nil {
			cmd := exec.Command(sshd, "-i", "-e", "-f", conf)
			cmd.Stdin, cmd.Stdout = f, f
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if cmd.Start() == nil {
				running = append(running, cmd)
			}
			_ = f.Close()
		}
		_ = c.Close()
	}
}

func keygen(t testing.TB, file string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
