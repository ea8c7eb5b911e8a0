/* libearly: see early.cpp. Any thread may call the first two. */
#ifndef EARLY_H
#define EARLY_H

#include <stddef.h>

void *early_make(size_t size);
void early_free(void *p);
/* A function to be called when destructors that come before the agent's have run. */
void early_at_the_end(void (*function)());
void early_say_to(const char *path);
/* For a program that ends without destructors. */
void early_say();

#endif
