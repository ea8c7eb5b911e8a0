/*
 * opener STEP…: open:FILE, deep:FILE (RTLD_DEEPBIND), space:FILE (dlmopen) open a library
 * and call its `answer`, if it has one; close closes the last. Prints what comes back.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	void *last = NULL;

	for (int i = 1; i < argc; i++) {
		const char *file = strchr(argv[i], ':');
		int (*answer)(void);

		if (!file) {
			printf("close %d\n", dlclose(last));
			continue;
		}
		file++;
		if (strncmp(argv[i], "deep:", 5) == 0)
			last = dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
		else if (strncmp(argv[i], "space:", 6) == 0)
			last = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
		else
			last = dlopen(file, RTLD_NOW | RTLD_LOCAL);
		if (!last) {
			printf("%s\n", dlerror());
			continue;
		}
		answer = (int (*)(void))dlsym(last, "answer");
		printf("answer %d\n", answer ? answer() : -1);
	}
	return 0;
}
