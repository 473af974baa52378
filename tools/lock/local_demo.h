/*
 * local demo: several servers on this host, to try out a URL of Sentinels, a cluster, a quorum or an etcd with.
 */
#pragma once

/** beside: the directory of the private server, whose name the demo's begins with. what: a kind, "status" or "stop".
 *  The exit status. */
int local_demo(const char *beside, const char *what);
