/*
 * Private members of an etcd for a test: directories of their own, free ports on 127.0.0.1. They die with the test
 * program, whichever way that ends. (Without fsync where etcd has that; the test's machine may be slow.)
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define REAL_ETCD_MAX 3

typedef struct real_etcd real_etcd;

/** 1 or 3 members, started and with a leader. Without etcd or etcdctl, or in a build without jansson, the test program
 *  says so and exits with 77 (skipped). Any other failure ends it with 1. From the main thread. */
real_etcd *real_etcd_start(unsigned members);
/** The same with TLS for clients; the certificate proves to be 127.0.0.1. */
real_etcd *real_etcd_start_tls(unsigned members);
/** And with certificates of clients, too, one of which there is, of the common name "me". */
real_etcd *real_etcd_start_mutual(unsigned members);

/** Its tokens are JSON Web Tokens, which tell when users have changed since. */
real_etcd *real_etcd_start_jwt(unsigned members);
/** Kept data of this many bytes at most are its whole space. */
real_etcd *real_etcd_start_small(unsigned members, unsigned bytes);

/** Kill all, and remove their directories. NULL is fine. At exit this is done for all that are left. */
void real_etcd_free(real_etcd *e);

/** "etcd://127.0.0.1:PORT,..." of all members; or of one. Valid as long as e. */
const char *real_etcd_url(const real_etcd *e);
const char *real_etcd_url_of(const real_etcd *e, unsigned member);
/** Who signs the certificates: a path. */
const char *real_etcd_ca(const real_etcd *e);
/** A client's certificate, and its key: paths. */
const char *real_etcd_cert(const real_etcd *e);
const char *real_etcd_key(const real_etcd *e);

/** Which member leads, as those that run say, in 60 s. */
unsigned real_etcd_leader(const real_etcd *e);

void real_etcd_kill(real_etcd *e, unsigned member); /**< SIGKILL, and wait until it is gone */
void real_etcd_restart(real_etcd *e,
                       unsigned member);              /**< it is killed: with its data, answering */
void real_etcd_freeze(real_etcd *e, unsigned member); /**< SIGSTOP */
void real_etcd_thaw(real_etcd *e, unsigned member);   /**< SIGCONT */

/** etcdctl with these arguments, divided by spaces, to the members that run: its standard output, cut to 4095 bytes and valid
 *  until the next. NULL: it has failed, or not ended within 60 s. */
const char *real_etcd_ctl(const real_etcd *e, const char *arguments);
/** Start it: a process, to be waited for or killed. */
pid_t real_etcd_ctl_start(const real_etcd *e, const char *arguments);
