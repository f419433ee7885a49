// Package join is what brings a machine to a control plane and keeps it there: the
// control plane's own key, the pin by which others know it, the join string that
// an admin hands over, and the credential that it is exchanged for.
//
// # Key
//
// A control plane that listens with TLS makes a key (ECDSA, P-256) at its first
// start, and a certificate for it that nobody else signed. The key is what others
// know it by: the pin is the SHA-256 of its public key (SubjectPublicKeyInfo, DER),
// in hexadecimal. A client with a pin asks for TLS 1.3, looks at no name and no
// authority, and takes no other key; it does so for every connection, resumed ones
// included. Files in the control plane's folder:
//
//	tls.key   the private key, PKCS #8 in PEM; mode 0600. Never made anew where one
//	          is: whoever loses it must hand out join strings again
//	tls.crt   the certificate in PEM, for clients that know of no pins. Made anew
//	          when the host's names changed or its end is near
//
// # Join string
//
// A join string is "mbjoin1-" and, in base64 (URL alphabet, no padding), a JSON
// object and the CRC-32 (IEEE, big-endian) of it:
//
//	urls     where the control plane is reached, best first: https with a pin,
//	         http only to a loopback address
//	pin      its pin; absent without TLS
//	secret   of the invitation: "mbj_", the actor's id, "_", 256 bits in base64
//
// White space within it means nothing: mail programs break lines.
//
// # Credential
//
// A JSON object in a file of mode 0600: urls and pin as above, and
//
//	actor, role, projects   who its owner is, as told when it joined
//	token                   "mb_", the actor's id, "_", 256 bits in base64
package join
