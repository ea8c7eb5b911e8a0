#include "store/store_internal.h"

#include <stdarg.h>
#include <stdio.h>

/* errno of the system call that failed below SQLite; 0 = none did. */
static int system_errno(sqlite3 *db)
{
	switch (sqlite3_errcode(db)) {
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return sqlite3_system_errno(db);
	default:
		return 0;
	}
}

struct error *store_write_failure(sqlite3 *db, const char *path)
{
	int errnum = system_errno(db);

	if (sqlite3_errcode(db) == SQLITE_NOMEM)
		return error_no_memory();
	if (errnum)
		return error_create_system(errnum, path, "cannot write the profile");
	/* Where rows come from somewhere else. */
	if (sqlite3_errcode(db) == SQLITE_CONSTRAINT)
		return error_create_path(ERROR_DAMAGED, path,
					 "not written: what it is made of contradicts itself");
	return error_create_path(ERROR_SYSTEM, path, "cannot write the profile: %s",
				 sqlite3_errmsg(db));
}

#define DAMAGE_REMEDY "Copy it again from where it was recorded, or record again."

struct error *store_damaged(const char *path, const char *format, ...)
{
	va_list arguments;
	CLEANUP_FREE char *detail = NULL;

	va_start(arguments, format);
	int length = vasprintf(&detail, format, arguments);
	va_end(arguments);
	if (length < 0) {
		detail = NULL;
		return error_no_memory();
	}
	return error_remedy(
		error_create_path(ERROR_DAMAGED, path, "the profile is damaged: %s", detail),
		DAMAGE_REMEDY);
}

struct error *store_read_failure(sqlite3 *db, const char *path)
{
	int errnum = system_errno(db);

	switch (sqlite3_errcode(db)) {
	case SQLITE_NOMEM:
		return error_no_memory();
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		/* A read past the end fails without an errno. */
		if (errnum && sqlite3_extended_errcode(db) != SQLITE_IOERR_SHORT_READ)
			return error_create_system(errnum, path, "cannot read the profile");
		break;
	default:
		break;
	}
	return store_damaged(path, "%s", sqlite3_errmsg(db));
}
