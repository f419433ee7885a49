package lease

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Cost is money, in billionths of a US dollar.
type Cost uint64

// Dollar is one US dollar.
const Dollar Cost = 1e9

// Dollars rounds an amount up to a Cost. What is no amount is the largest there is.
func Dollars(usd float64) Cost {
	n := math.Ceil(usd * float64(Dollar))
	if !(n <= math.MaxInt64) {
		return math.MaxInt64
	}
	return Cost(max(n, 0))
}

// ParseCost reads a number of dollars.
func ParseCost(s string) (Cost, error) {
	usd, err := strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
	if err != nil || !(usd >= 0 && usd <= 1e9) {
		return 0, fmt.Errorf("cost %q: must be a number of US dollars: %w", s, ErrMalformed)
	}
	return Dollars(usd), nil
}

// String writes dollars with no more digits than there are.
func (c Cost) String() string {
	s := fmt.Sprintf("$%d.%09d", c/Dollar, c%Dollar)
	s = strings.TrimRight(s, "0")
	if at := len(s) - strings.IndexByte(s, '.') - 1; at < 2 {
		s += strings.Repeat("0", 2-at)
	}
	return s
}

// Plus adds up; it stops at the largest amount there is.
func (c Cost) Plus(d Cost) Cost {
	return min(c, math.MaxInt64) + min(d, math.MaxInt64-min(c, math.MaxInt64))
}

// Bill is what a job costs.
type Bill struct {
	Max      Cost `json:"max_nusd,omitempty"`      // it may never have spent and reserved more; 0: no limit
	Reserved Cost `json:"reserved_nusd,omitempty"` // by open intents
	Spent    Cost `json:"spent_nusd,omitempty"`    // booked
}

// Intent is what the holder of a lease said that it is about to spend. It ends
// with the lease: by a report or a release at what these say was spent, else in full.
type Intent struct {
	Fence    Fence `json:"fence,omitzero"` // zero: there is none
	Reserved Cost  `json:"reserved_nusd"`
}

// Intention opens or raises the intent of a held lease.
type Intention struct {
	Shard   ShardID `json:"shard"`
	Fence   Fence   `json:"fence"`
	Token   string  `json:"token"`
	Reserve Cost    `json:"reserve_nusd"` // in all, under this fence

	// Idle says that no request is under way under this lease. Leases that all wait
	// idly for what the others hold would wait for ever: one of them is told so.
	Idle bool `json:"idle,omitempty"`
}
