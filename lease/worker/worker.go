package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

const (
	lowPause  = time.Second / 2  // bound of the first pause after an error
	highPause = 15 * time.Second // bound of all pauses
)

// Config says what a worker is and may use. Dir belongs to one process at a
// time, as does the adding side of Spool.
type Config struct {
	ID          lease.WorkerID
	Incarnation uint64 // above that of every former run
	Host        string
	Machine     string
	Version     string

	Control lease.Control
	Spool   *spool.Spool
	Dir     string // work folder
	Marks   string // file that remembers how far each store was seen to be; empty: forgotten at the end

	Base context.Context // of what executors get beside the lease's end: values alone; nil: none

	Executors map[lease.Kind]Executor
	Parallel  int                // shards at once, of all kinds together; 0 is 1
	Slots     map[lease.Kind]int // shards of a kind at once; kinds not named: Parallel

	// LeaseLimit bounds the leases at a time, running and waiting: beyond those that
	// run, as many shards are claimed ahead as a slot does within a heartbeat; 0 is 100.
	// Below the number of slots it leaves some idle.
	LeaseLimit int

	// Loads tells whether a model is loaded into memory and stays there for a while:
	// then its shards had better follow one another. Nil: all do.
	Loads func(model string) bool
	Offer lease.Offer // no kinds: all that have an executor
	Job   lease.JobID // claim from this job only; zero: from any

	Grace   time.Duration // for running shards to finish in, and for the spool to be delivered, when Run's context ends; 0: none
	MinFree uint64        // claim nothing while fewer bytes are free at Dir or one of Disks
	Disks   []string      // further folders to look at, such as the spool's

	// Guards say why to claim nothing now, and are asked every fifteen seconds:
	// what runs goes on. Facts go with the heartbeats. Awake is told when the
	// worker begins to hold leases, and when it ends to; it must not block.
	Guards []func(ctx context.Context) (why string)
	Facts  lease.Facts
	Awake  func(held bool)

	// Bell tells that another process may have added to the spool; may be nil.
	// The spool is also scanned now and then without it.
	Bell <-chan struct{}

	// Recheck returns nil when what was withdrawn is there again. Nil: five
	// minutes have to do.
	Recheck func(ctx context.Context, n lease.Need) error

	// Models, where set, tells which models there are now, in place of those in
	// Offer. It is asked every minute.
	Models func(ctx context.Context) []string

	// Stall is how long a shard may run without a sign of progress; nil: lease.StallLimit.
	Stall func(g lease.Grant) time.Duration

	Log  *slog.Logger                     // nil: none
	Now  func() time.Time                 // wall clock; nil: time.Now
	Mono func() time.Duration             // the clock that stands still while the machine sleeps; nil: the system's
	Rand func() float64                   // in [0, 1), for pauses; nil: math/rand
	Free func(dir string) (uint64, error) // free bytes; nil: the file system's answer
}

// Agent is one worker. Make it with New.
type Agent struct {
	cfg  Config
	log  *slog.Logger
	mail *courier
	seen *marks

	wake    chan struct{} // something to tell or to claim for
	beatNow chan struct{} // a heartbeat is wanted
	granted chan struct{} // new leases: the heartbeat's pace may have changed
	killed  chan struct{}
	kill    sync.Once
	running sync.WaitGroup // attempts
	end     context.CancelCauseFunc

	mu        sync.Mutex
	tasks     map[key]*task
	queue     []*task // of these, what waits for a slot
	paces     map[work]*sample
	model     string        // that was begun last
	uses      int           // of it, under way
	used      time.Duration // when the last one ended, on the monotonic clock
	gives     []lease.Give  // to be sent
	withdrawn map[lease.Need]withdrawal
	looks     time.Duration        // when what was withdrawn is looked at next, on the monotonic clock
	hindered  map[string]hindrance // why nothing is claimed, by what there is too little of
	drainedBy lease.Pause          // as the control plane said last
	draining  bool                 // it leaves
	rests     string               // of the guards: why to claim nothing
	tight     string               // of the disk: likewise
	awake     bool                 // as Config.Awake was told
	restUntil time.Duration        // no claims before, on the monotonic clock
	beaten    chan struct{}        // closed at the next answered heartbeat, and when the end begins
	jumps     int                  // of the clocks against each other
	doubt     bool                 // a jump, and no heartbeat sent since was answered
	seenWall  time.Time
	seenMono  time.Duration
}

// New checks c and returns a worker that Run starts.
func New(c Config) (*Agent, error) {
	switch {
	case c.ID == "":
		return nil, errors.New("worker without an id")
	case c.Control == nil || c.Spool == nil || c.Dir == "":
		return nil, fmt.Errorf("worker %q: control, spool and work folder are needed", c.ID)
	}
	if len(c.Offer.Kinds) == 0 {
		for k := range c.Executors {
			c.Offer.Kinds = append(c.Offer.Kinds, k)
		}
		slices.Sort(c.Offer.Kinds)
	}
	for _, k := range c.Offer.Kinds {
		if c.Executors[k] == nil {
			return nil, fmt.Errorf("worker %q: no executor for kind %q", c.ID, k)
		}
	}
	if c.Parallel <= 0 {
		c.Parallel = 1
	}
	if c.LeaseLimit <= 0 {
		c.LeaseLimit = leaseLimit
	}
	if c.Base == nil {
		c.Base = context.Background()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Free == nil {
		c.Free = freeSpace
	}
	if c.Stall == nil {
		c.Stall = func(g lease.Grant) time.Duration { return lease.StallLimit(g.Work) }
	}
	if born := time.Now(); c.Mono == nil {
		c.Mono = func() time.Duration { return time.Since(born) }
	}
	a := &Agent{
		cfg: c, log: c.Log,
		wake: make(chan struct{}, 1), beatNow: make(chan struct{}, 1), granted: make(chan struct{}, 1),
		killed: make(chan struct{}), beaten: make(chan struct{}),
		tasks: map[key]*task{}, paces: map[work]*sample{}, withdrawn: map[lease.Need]withdrawal{}, hindered: map[string]hindrance{},
	}
	a.mail = newCourier(c.Control, c.Spool, c.Log, a.mono)
	var err error
	if a.seen, err = openMarks(c.Marks); err != nil {
		a.log.Warn("beginning without marks", "err", err)
	}
	return a, nil
}

// Run works until ctx ends and everything it started has ended: it claims no
// more, lets running shards finish within the grace while it keeps their leases,
// delivers, gives back the rest, and returns nil. It does not return because the
// control plane is away. It may be called once.
//
// Errors: ErrKilled, lease.ErrTwin, lease.ErrUnauthorized, lease.ErrForbidden, or
// that of preparing the folders.
func (a *Agent) Run(ctx context.Context) error {
	if err := clean(a.cfg.Dir); err != nil {
		return err
	}
	if err := a.cfg.Spool.Clean(); err != nil {
		return err
	}
	// What is under way outlives ctx by the grace.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	a.end = end
	a.mu.Lock()
	a.seenWall, a.seenMono = a.wall(), a.mono()
	a.mu.Unlock()

	a.ask(life)
	if a.cfg.Facts.System != "" {
		poke(a.beatNow) // whoever looks at the workers need not wait for them
	}
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){a.guard, a.heart, a.watch, a.upload, a.recheck, a.listen} {
		loops.Go(func() { loop(life) })
	}
	loops.Go(func() { a.leave(ctx, life) })
	err := a.exchanges(life)
	end(err)
	loops.Wait()
	a.keepMarks()
	if cause := context.Cause(life); fatal(cause) {
		return fmt.Errorf("worker %q: %w", a.cfg.ID, cause)
	}
	select {
	case <-a.killed:
		return fmt.Errorf("worker %q: %w", a.cfg.ID, ErrKilled)
	default:
		return nil
	}
}

// RunningTask is a shard in progress.
type RunningTask struct {
	Kind  lease.Kind
	Shard lease.ShardID
	Work  uint64 // size, in the kind's unit; 0 if not known
	Done  uint64
}

// Running lists the shards in progress, in order.
func (a *Agent) Running() []RunningTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []RunningTask
	for _, t := range a.tasks {
		if t.phase == lease.Running {
			list = append(list, RunningTask{t.grant.Kind, t.grant.Shard, t.grant.Work, t.work.Load()})
		}
	}
	slices.SortFunc(list, func(x, y RunningTask) int { return x.Shard.Compare(y.Shard) })
	return list
}

// hello introduces the worker. The caller holds a.mu.
func (a *Agent) hello() lease.Hello {
	return lease.Hello{
		Worker: a.cfg.ID, Incarnation: a.cfg.Incarnation, Host: a.cfg.Host, Machine: a.cfg.Machine,
		Version: a.cfg.Version, Offer: a.offered(), Mark: a.seen.shown(),
	}
}

// wall reads the wall clock, which goes on while the machine sleeps.
func (a *Agent) wall() time.Time { return a.cfg.Now().Round(0) }

// mono reads the clock that stands still while the machine sleeps.
func (a *Agent) mono() time.Duration { return a.cfg.Mono() }

// pause waits before another try. An answered heartbeat ends it, as the control
// plane is there, and so does the beginning of the end. It returns ctx's cause.
func (a *Agent) pause(ctx context.Context, tries int) error {
	a.mu.Lock()
	beaten := a.beaten
	a.mu.Unlock()
	timer := time.NewTimer(a.jitter(tries))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-beaten:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// jitter is a random time below a bound that doubles from try to try, so that
// many workers don't come back at once.
func (a *Agent) jitter(tries int) time.Duration {
	bound := highPause
	if tries < 5 {
		bound = lowPause << tries
	}
	a.mu.Lock()
	if a.draining { // little time is left
		bound = lowPause
	}
	a.mu.Unlock()
	return time.Duration(a.cfg.Rand() * float64(bound))
}

// answered ends all pauses. The caller holds a.mu.
func (a *Agent) answered() {
	close(a.beaten)
	a.beaten = make(chan struct{})
}

// poke leaves a note in a channel of one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
