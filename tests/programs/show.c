/*
 * show [ARG…]: prints its arguments and its environment, one a line, by environ and by
 * main's third argument; then a malloc, so that a recorded one has something to record.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv, char **envp)
{
	void *volatile block = malloc(100);

	for (int i = 0; i < argc; i++)
		printf("argument %s\n", argv[i]);
	for (char **e = environ; *e; e++)
		printf("environ %s\n", *e);
	for (char **e = envp; *e; e++)
		printf("envp %s\n", *e);
	free(block);
	return 0;
}
