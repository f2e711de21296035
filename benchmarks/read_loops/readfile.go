// What agents in Go do: os.ReadFile. Passes in, nanoseconds out.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	list, _ := os.ReadFile(os.Args[1])
	files := strings.Fields(string(list))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		passes, _ := strconv.Atoi(in.Text())
		start := time.Now()
		for ; passes > 0; passes-- {
			for _, file := range files {
				if _, err := os.ReadFile(file); err != nil {
					panic(err)
				}
			}
		}
		fmt.Println(time.Since(start).Nanoseconds())
	}
}
