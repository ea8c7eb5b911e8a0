/* A library whose own RUNPATH ($ORIGIN/inner) finds what it opens by name. */
#include <dlfcn.h>
#include <stddef.h>

int answer(void);

int answer(void)
{
	void *inner = dlopen("libinner.so", RTLD_NOW);
	int (*function)(void) = inner ? (int (*)(void))dlsym(inner, "answer") : NULL;
	int ret = function ? function() : -2;

	if (inner)
		dlclose(inner);
	return ret;
}
