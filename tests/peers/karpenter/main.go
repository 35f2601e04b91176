// Command karpenter-peer puts Karpenter's own scheduler beside Kerf's planner. A claim such as "three hundred times
// as fast" means little unless both solve the same pods with the same instance types on the same machine, so this
// program imports Karpenter as a library, feeds it the fixture files that `kerf plan` reads, and prints what it took
// and what the result costs. It writes those fixtures too, since Karpenter's benchmark draws its pods with Go's
// math/rand: drawing them once, here, is what makes them the same pods.
//
//	karpenter-peer fixture FOLDER/WORKLOAD                                         writes it
//	karpenter-peer solve [--ignore-preferences] [--placements] FOLDER/WORKLOAD     one JSON line on stdout
//	karpenter-peer simulate [--candidates N] FOLDER/WORKLOAD                       one JSON line on stdout
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

const usage = `usage: karpenter-peer fixture FOLDER/WORKLOAD
       karpenter-peer solve [--ignore-preferences] [--placements] FOLDER/WORKLOAD
       karpenter-peer simulate [--candidates N] FOLDER/WORKLOAD`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter-peer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	var options solveOptions
	var candidates int
	switch args[0] {
	case "simulate":
		flags.IntVar(&candidates, "candidates", 20, "how many nodes are looked at, each by itself")
	case "solve":
		flags.BoolVar(&options.ignorePreferences, "ignore-preferences", false, "drop preferred terms from the start")
		flags.BoolVar(&options.placements, "placements", false, "say where each pod went")
	}
	folder, err := onlyArgument(flags, args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "fixture":
		return writeWorkload(folder)
	case "solve":
		return printed(solve(folder, options))
	case "simulate":
		return printed(simulate(folder, candidates))
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

// printed is for what came out well: one JSON line on stdout.
func printed[T any](answer T, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// onlyArgument parses flags on both sides of the one positional argument.
func onlyArgument(flags *flag.FlagSet, args []string) (string, error) {
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	folder := flags.Arg(0)
	if folder == "" {
		return "", fmt.Errorf("which folder?\n%s", usage)
	}
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("one folder at a time, not also %q\n%s", flags.Arg(0), usage)
	}
	return folder, nil
}
