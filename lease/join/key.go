package join

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The files of a control plane's folder.
const (
	keyName  = "tls.key"
	certName = "tls.crt"
)

// How long a certificate is good, and how long before its end it is made anew.
const (
	certTerm  = 10 * 365 * 24 * time.Hour
	certRenew = 365 * 24 * time.Hour
)

// Server returns how the control plane of a folder talks TLS, as each of names
// (DNS names and addresses), and the pin of its key. The key is made at the first
// start; no other process may start there meanwhile.
func Server(dir string, names []string, now time.Time) (*tls.Config, Pin, error) {
	key, err := loadKey(filepath.Join(dir, keyName))
	if err != nil {
		return nil, Pin{}, err
	}
	cert, err := loadCert(filepath.Join(dir, certName), key, names, now)
	if err != nil {
		return nil, Pin{}, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}},
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // every connection shows the key
	}, PinOf(cert), nil
}

// loadKey reads the key, or makes it where there is none.
func loadKey(path string) (crypto.Signer, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newKey(path)
	case err != nil:
		return nil, fmt.Errorf("key of the control plane: %w", err)
	case fi.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("key file %q can be read by others (mode %04o)", path, fi.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key of the control plane: %w", err)
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("key file %q is damaged: put back a copy; without one, remove it, and all have to join again", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key file %q is damaged: put back a copy; without one, remove it, and all have to join again", path)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key file %q: a key of type %T cannot sign", path, key)
	}
	return signer, nil
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	if err := writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

// loadCert reads the key's certificate. One that is missing, or lacks a name, or
// ends soon, is made anew: it has no secrets and is not what others know.
func loadCert(path string, key crypto.Signer, names []string, now time.Time) (*x509.Certificate, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if block, _ := pem.Decode(b); block != nil {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && fits(c, key, names, now) {
			return c, nil
		}
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "macbatch control plane"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(certTerm), // clocks differ
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true, // so that it may be trusted by itself
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	if err := writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// fits reports whether c is a certificate of the key that does for now.
func fits(c *x509.Certificate, key crypto.Signer, names []string, now time.Time) bool {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public()) && now.After(c.NotBefore) && now.Add(certRenew).Before(c.NotAfter) &&
		!slices.ContainsFunc(names, func(n string) bool { return c.VerifyHostname(n) != nil })
}

// writeFile makes a file, whole or not at all, that survives a loss of power.
func writeFile(path string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
