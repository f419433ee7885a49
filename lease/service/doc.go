// Package service has the system keep a command running: launchd on macOS, systemd
// on Linux. It writes their files, and asks them to start and stop what those
// describe. Nothing secret is in a file: commands find their token as ever.
//
//	                launchd                                     systemd
//	name            local.macbatch.NAME                         macbatch-NAME.service
//	of a person     ~/Library/LaunchAgents/….plist (agent)      ~/.config/systemd/user/
//	of the machine  /Library/LaunchDaemons/….plist (daemon)     /etc/systemd/system/
//	log             ~/Library/Logs/macbatch/NAME.log, or        the journal
//	                /Library/Logs/macbatch/NAME.log
//
// An agent lives while its owner is logged in. A user unit of systemd does too,
// unless the account lingers (loginctl enable-linger).
//
// What is decided here for both: a service that ended is started again whatever the
// reason, after some seconds; files are made with umask 077; it may take its grace
// to leave; only its main process is told to, since its children are work that it
// finishes. A worker is of launchd's type Standard: one of type Background would be
// bound to the slow cores. The control plane is Interactive, for others wait for it.
//
// A unit of systemd for the machine sees the file system read-only but for the
// folders that it is known to write.
package service
