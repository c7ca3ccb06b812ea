// Reads lines of versions with tabs between them, and writes their ranks as Go's own module code orders them.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"

	"golang.org/x/mod/semver"
)

// The standard library and the tool chain are written go1.20rc1 or 1.20.
func canonical(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "go"), "v")
	return "v" + text
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	for lines.Scan() {
		versions := strings.Split(lines.Text(), "\t")
		var order []string
		for at, version := range versions {
			versions[at] = canonical(version)
			if semver.IsValid(versions[at]) {
				order = append(order, versions[at])
			}
		}
		sort.SliceStable(order, func(a, b int) bool { return semver.Compare(order[a], order[b]) < 0 })
		ranks := map[string]int{}
		rank := 0
		for at, version := range order {
			if at > 0 && semver.Compare(order[at-1], version) != 0 {
				rank++
			}
			ranks[version] = rank
		}
		words := make([]string, len(versions))
		for at, version := range versions {
			words[at] = "-"
			if semver.IsValid(version) {
				words[at] = fmt.Sprint(ranks[version])
			}
		}
		fmt.Println(strings.Join(words, " "))
	}
}
