package kinds

import (
	"errors"
	"fmt"
	"testing"

	"macbatch/lease"
	"macbatch/lease/worker"
	"macbatch/transcode"
)

// TestSourceBusy: a film that is being written is parked without an attempt; one
// that stays another than was scanned spends them.
func TestSourceBusy(t *testing.T) {
	tools := &Tools{}
	changed := fmt.Errorf("transcode %q: %w", "a.mp4", transcode.ErrSourceChanged)
	var parked *worker.Released
	if err := tools.filmError("films", fmt.Errorf("%w: %w", changed, transcode.ErrSourceBusy)); !errors.As(err, &parked) || parked.Delay <= 0 || parked.Withdraw != (lease.Need{}) {
		t.Errorf("of a film that is written: %v, want it released for a while, and nothing withdrawn", err)
	}
	var failed *worker.Failure
	if err := tools.filmError("films", changed); !errors.As(err, &failed) || failed.Class != lease.Retryable {
		t.Errorf("of a film that changed: %v, want a failure that may be retried", err)
	}
}
