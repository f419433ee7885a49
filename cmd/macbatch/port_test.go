package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// setPort gives a script $PORT, a port of this machine that nobody else has. As
// long as the script runs it is kept: a socket that does not listen is bound to
// it, beside which only who asks for this very port may listen.
func setPort(e *testscript.Env) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	syscall.CloseOnExec(fd)
	release := func() { _ = syscall.Close(fd) } // it was only bound
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(fd)
	}
	at, ok := name.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		release()
		return fmt.Errorf("find a free port: %w", err)
	}
	e.Setenv("PORT", strconv.Itoa(at.Port))
	if runtime.GOOS == "linux" {
		e.Defer(release)
	} else { // two sockets of one address are refused there
		release()
	}
	return nil
}
