package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseLabels(t *testing.T) {
	got, err := ParseLabels([]string{"zone=b", "rack=a/1:2.3_4-5"})
	if want := []string{"rack=a/1:2.3_4-5", "zone=b"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("ParseLabels = %q, %v, want %q", got, err, want)
	}
	if tags := TagsOf(got); tags != "rack=a/1:2.3_4-5,zone=b" || !slices.Equal(tags.Labels(), got) || tags.Missing(got) != "" {
		t.Fatalf("TagsOf(%q) = %q", got, tags)
	}
	for _, bad := range [][]string{
		{""}, {"rack"}, {"=a"}, {"rack="}, {"rack=a,b"}, {"rack=a=b"}, {"ra ck=a"}, {"rack=ä"}, {"rack=a\n"},
		{"rack=a", "rack=a"}, {"rack=a", "rack=b"}, {"r=" + strings.Repeat("a", MaxLabel)}, make([]string, MaxLabels+1),
	} {
		if got, err := ParseLabels(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseLabels(%.60q) = %q, %v, want ErrInvalid", bad, got, err)
		}
	}
}

func TestAbleByTags(t *testing.T) {
	o := Offer{Kinds: []Kind{"k"}, Labels: []string{"rack=a", "zone=b"}}
	for tags, able := range map[Tags]bool{"": true, "rack=a": true, "rack=a,zone=b": true, "rack=b": false, "rack=a,zone=c": false, "rack": false} {
		if got := o.Able(Need{Kind: "k", Tags: tags}); got != able {
			t.Errorf("Able(%q) = %v, want %v", tags, got, able)
		}
	}
}
