// A Go program to record: goroutines on several threads that take memory from C and give it
// back, some of it in another goroutine, some never. What Go keeps in its own heap comes from
// no allocator that can be hooked. The number is how much of it there is.
package main

/*
#include <stdlib.h>
#include <string.h>

static void *take(size_t size)
{
	void *p = malloc(size);

	memset(p, 1, size);
	return p;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"
)

func lengths(count int) int {
	sum := 0
	for i := 0; i < count; i++ {
		text := C.CString("text number " + strconv.Itoa(i))
		sum += int(C.strlen(text))
		C.free(unsafe.Pointer(text))
	}
	return sum
}

func produce(count int, blocks chan<- unsafe.Pointer) {
	for i := 0; i < count; i++ {
		blocks <- C.take(C.size_t(16 + i%500))
	}
}

func consume(blocks <-chan unsafe.Pointer) {
	for block := range blocks {
		C.free(block)
	}
}

func keep(count int) int {
	for i := 0; i < count; i++ {
		C.take(1000)
	}
	return count
}

func main() {
	count := 1000
	if len(os.Args) > 1 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	blocks := make(chan unsafe.Pointer, 64)
	sums := make([]int, 4)
	var workers, consumers sync.WaitGroup

	consumers.Add(1)
	go func() {
		defer consumers.Done()
		consume(blocks)
	}()
	for i := range sums {
		workers.Add(1)
		go func(i int) {
			defer workers.Done()
			sums[i] = lengths(count)
			produce(count, blocks)
		}(i)
	}
	workers.Wait()
	close(blocks)
	consumers.Wait()

	sum := 0
	for _, one := range sums {
		sum += one
	}
	fmt.Println(sum, keep(100))
}
