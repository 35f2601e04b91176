// Command scheduler-oracle checks with the real kube-scheduler the placements that Kerf's planner made.
//
// It reads JSON Lines on standard input, one cluster a line (type cluster), and writes one result a line (type caseResult).
// Nothing is scheduled: for each placement the default profile's PreFilter and Filter plugins are asked about that one
// node, against the state that the earlier placements left.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	// A scheduler that logs every refusal would drown the answer.
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)

	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler-oracle: "+err.Error())
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	oracle, err := newOracle(ctx)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	answers := json.NewEncoder(out)
	for {
		var given cluster
		if err := lines.Decode(&given); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("a line that is not a cluster: %w", err)
		}
		caseResult, err := oracle.check(ctx, &given)
		if err != nil {
			return fmt.Errorf("cluster of seed %d: %w", given.Seed, err)
		}
		if err := answers.Encode(caseResult); err != nil {
			return err
		}
	}
}
