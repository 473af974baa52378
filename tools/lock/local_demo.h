/*
 * local demo: several servers on this host, to try a URL of Sentinels, a cluster, a quorum or etcd.
 */
#pragma once

/** beside: the directory of the private server; the name of the demo's directory begins with it. what: a
 *  kind of servers, "status" or "stop". Returns the exit status. */
int local_demo(const char *beside, const char *what);
