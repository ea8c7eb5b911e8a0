/* nothing: a program that has no work. */
int main(void) { return 0; }
