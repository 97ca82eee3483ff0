// The client of the door; ahead.go says what it is for, client/door.go what it
// speaks. Whatever is unusual ends in a return, and main does the work.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#ifdef __GLIBC__

static const char magic[8] = "\0isolat\1";
enum { header = 12, most = 1 << 20, refused = 125, names_most = 64 };

// The variables that the command looks at, beside those of --env-from.
static const char *const always[] = {"TERM", "XDG_RUNTIME_DIR", "HOME", "SSH_AUTH_SOCK", "TRACEPARENT", "TRACESTATE"};

// What is found in the command line.
struct wanted {
	const char *names[names_most]; // of variables
	int nnames;
	int meta; // descriptor of --meta, 0 for none
};

// Whether arg is flag, with its value in it or behind it.
static const char *value_of(const char *flag, const char *arg, const char *next)
{
	size_t n = strlen(flag);
	if (strncmp(arg, flag, n) != 0)
		return NULL;
	if (arg[n] == '=')
		return arg + n + 1;
	return arg[n] == 0 ? next : NULL;
}

// Who does the work, as far as the command line says.
enum who {
	the_server, // if there is one
	main_first, // who may go to the server itself
	main_alone, // without the server
};

static int begins(const char *arg, const char *flag) { return strncmp(arg, flag, strlen(flag)) == 0; }

// Whether the command has tools, as run can. It keeps those, and so main has to
// be there while the server works for it.
static int has_tools(const char *command, const char *arg)
{
	return strcmp(command, "run") == 0 && (begins(arg, "--tool") || begins(arg, "--mcp") || begins(arg, "--approve"));
}

// Reads what is needed from the flags, which end at "--" or at the program.
// Where the program begins is not known here, so its arguments may be taken
// for flags: then a variable or descriptor too many is passed, or the server
// is not used. Neither changes what the command does.
static enum who scan(char **argv, struct wanted *w)
{
	enum who who = the_server;
	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		w->names[w->nnames++] = always[i];
	for (char **a = argv + 2; *a && strcmp(*a, "--") != 0; a++) {
		const char *v;
		if (begins(*a, "--no-server"))
			return main_alone;
		if (has_tools(argv[1], *a))
			who = main_first;
		if ((v = value_of("--env-from", *a, a[1]))) {
			if (w->nnames == names_most)
				who = main_first;
			else
				w->names[w->nnames++] = v;
		}
		if ((v = value_of("--meta", *a, a[1])) && *v && strspn(v, "0123456789") == strlen(v))
			w->meta = strlen(v) < 7 ? atoi(v) : 0;
	}
	return who;
}

// The socket: $ISOLATE_SOCKET, or serve.sock in the run-time directory.
static int socket_path(char *to, size_t room)
{
	const char *named = getenv("ISOLATE_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
	uid_t uid = geteuid();
	int n;
	if (named && *named)
		n = snprintf(to, room, "%s", named);
	else if (uid == 0)
		n = snprintf(to, room, "/run/isolate/serve.sock");
	else if (run && *run)
		n = snprintf(to, room, "%s/isolate/serve.sock", run);
	else if (access("/dev/shm", W_OK | X_OK) == 0)
		n = snprintf(to, room, "/dev/shm/isolate-%u/serve.sock", uid);
	else
		n = snprintf(to, room, "/tmp/isolate-%u/serve.sock", uid);
	return n > 0 && (size_t)n < room ? 0 : -1;
}

// Connects to a server of our own user; others would learn our command line.
static int reach(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ucred who;
	socklen_t n = sizeof who;
	if (socket_path(at.sun_path, sizeof at.sun_path) != 0)
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	// a low number means that one of the streams is closed: it would be this
	if (fd > 2 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid())
		return fd;
	close(fd);
	return -1;
}

// A frame being written. With no memory to write to it only counts.
struct frame {
	char *at;
	size_t size;
};

static void put(struct frame *f, const void *p, size_t n)
{
	if (f->at)
		memcpy(f->at + f->size, p, n);
	f->size += n;
}

static void put_number(struct frame *f, uint32_t n)
{
	unsigned char b[4] = {n, n >> 8, n >> 16, n >> 24};
	put(f, b, 4);
}

static void put_text(struct frame *f, const char *s) { put(f, s, strlen(s) + 1); }

static void put_all(struct frame *f, size_t body, int argc, char **argv, const struct wanted *w, const char *dir)
{
	uint32_t set = 0;
	put(f, magic, sizeof magic);
	put_number(f, body);
	for (int i = 0; i < w->nnames; i++)
		set += getenv(w->names[i]) != NULL;
	put_number(f, argc);
	put_number(f, set);
	put_number(f, 3 + (w->meta > 2));
	put_text(f, dir);
	for (int i = 0; i < argc; i++)
		put_text(f, argv[i]);
	for (int i = 0; i < w->nnames; i++) {
		const char *v = getenv(w->names[i]);
		if (!v)
			continue;
		put(f, w->names[i], strlen(w->names[i]));
		put(f, "=", 1);
		put_text(f, v);
	}
	put_text(f, "0");
	put_text(f, "1");
	put_text(f, "2");
	if (w->meta > 2) {
		char n[16];
		snprintf(n, sizeof n, "%d", w->meta);
		put_text(f, n);
	}
}

// Sends the frame, the descriptors with its first byte.
static int hand_over(int fd, const struct frame *f, int meta)
{
	int fds[4] = {0, 1, 2, meta};
	size_t nfds = meta > 2 ? 4 : 3;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof fds)];
	} control;
	memset(&control, 0, sizeof control);
	struct iovec part = {f->at, f->size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(nfds * sizeof *fds)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof *fds);
	memcpy(CMSG_DATA(c), fds, nfds * sizeof *fds);
	while (part.iov_len > 0) {
		ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		part.iov_base = (char *)part.iov_base + n;
		part.iov_len -= n;
		m.msg_control = NULL;
		m.msg_controllen = 0;
	}
	return 0;
}

// The signals to forward: those that ask a command to stop, unless they were
// ignored when it started (nohup), the size of the window, and that we were
// stopped (Ctrl-Z) and go on.
static void choose_signals(sigset_t *set)
{
	static const int stop[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};
	sigemptyset(set);
	sigaddset(set, SIGWINCH);
	sigaddset(set, SIGCONT);
	for (size_t i = 0; i < sizeof stop / sizeof *stop; i++) {
		struct sigaction now;
		if (sigaction(stop[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(set, stop[i]);
	}
}

// Stops us and our group as the kernel would have, had we used the terminal
// ourselves. Who was continued has a SIGCONT to pass on; who could not be stopped,
// since it ignores that or nobody is there to continue it, says so.
static void stop_here(int fd, unsigned char number)
{
	sigset_t pending;
	if (number != SIGTTIN && number != SIGTTOU)
		return;
	kill(0, number);
	if (sigpending(&pending) == 0 && !sigismember(&pending, SIGCONT))
		send(fd, &number, 1, MSG_NOSIGNAL);
}

enum { patience = 3 }; // signals that ask to stop, after which we do not wait

// Ends with a code, or by the SIGINT that the code says: a shell that runs a
// loop goes on after a command that has only exited.
static void end(int code, int interrupted)
{
	if (interrupted && code == 128 + SIGINT) {
		sigset_t set;
		sigemptyset(&set);
		sigaddset(&set, SIGINT);
		signal(SIGINT, SIG_DFL);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(SIGINT);
	}
	_exit(code);
}

// Passes signals on until there is an answer. It returns to do the work here.
static void attend(int fd, int signals)
{
	struct termios terminal;
	int was_terminal = tcgetattr(0, &terminal) == 0;
	int asked = 0, interrupted = 0;
	for (;;) {
		struct pollfd list[2] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
		if (poll(list, 2, -1) < 0)
			continue;
		struct signalfd_siginfo got;
		if (list[1].revents && read(signals, &got, sizeof got) == sizeof got) {
			unsigned char number = got.ssi_signo;
			interrupted |= number == SIGINT;
			if (got.ssi_signo != SIGWINCH && got.ssi_signo != SIGCONT && ++asked == patience) {
				if (was_terminal)
					tcsetattr(0, TCSANOW, &terminal);
				end(128 + number, interrupted);
			}
			while (send(fd, &number, 1, MSG_NOSIGNAL) < 0 && errno == EINTR)
				;
		}
		if (!list[0].revents)
			continue;
		unsigned char answer[2];
		ssize_t n = recv(fd, answer, sizeof answer, MSG_WAITALL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 2 && answer[0] == 'x')
			end(answer[1], interrupted);
		if (n == 2 && answer[0] == 'c')
			return;
		if (n == 2 && answer[0] == 's') {
			stop_here(fd, answer[1]);
			continue;
		}
		if (was_terminal)
			tcsetattr(0, TCSANOW, &terminal);
		dprintf(2, "error: cannot say how the program ended: the server has ended before it\n"
			   "hint: the program was ended with it; run it again, or add --no-server\n");
		_exit(refused);
	}
}

static void carry(int fd, int argc, char **argv, const struct wanted *w)
{
	char dir[4096];
	struct frame count = {0}, f = {0};
	if (!getcwd(dir, sizeof dir) || dir[0] != '/')
		return;
	put_all(&count, 0, argc, argv, w, dir);
	if (count.size > most || !(f.at = malloc(count.size)))
		return;
	put_all(&f, count.size - header, argc, argv, w, dir);
	sigset_t set, before;
	choose_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals >= 0) {
		if (hand_over(fd, &f, w->meta) == 0)
			attend(fd, signals);
		close(signals);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(f.at);
}

// Of package container, in the whole program: begins what main needs first.
extern void isolate_early_begin(void) __attribute__((weak));

__attribute__((constructor)) static void ahead(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "exec") != 0 && strcmp(argv[1], "run") != 0 && strcmp(argv[1], "shell") != 0))
		return;
	struct wanted w = {0};
	enum who who = scan(argv, &w);
	// A server that is not wanted is not woken, and not waited for if it is stuck.
	int fd = who == main_alone ? -1 : reach();
	if (fd >= 0 && who == the_server)
		carry(fd, argc, argv, &w);
	if (fd >= 0) // main is going to find it, too, and needs no cell
		close(fd);
	else if (isolate_early_begin)
		isolate_early_begin();
}

#endif
