/* A process whose executable is a few KiB.
 *
 * libcontainer executes /proc/self/exe again for each cell, and for that makes
 * a sealed copy of it: 0.6 ms a MB, half a cold start. It makes none if the
 * executable is sealed already. So the command executes a loader of a few KiB
 * from a sealed memfd, and the loader does what the kernel does for a program:
 * it maps the command's own file, maps the dynamic linker that the file names,
 * tells it where the program is, and jumps to it. libcontainer executes the
 * same loader. docs/adr/0008-light-executable.md says why and what it changes.
 *
 * The loader lies in one section, refers to nothing outside it and has no data
 * but its parameters, which stand before it in its image; for the rules of such
 * code see container/keeper/keeper.c.
 */
#define _GNU_SOURCE
#include "light.h"

#if defined(__x86_64__) && defined(__linux__)

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC optimize("Os", "no-jump-tables", "no-tree-switch-conversion", \
		     "no-tree-loop-distribute-patterns", "no-stack-protector", \
		     "no-tree-vectorize", "omit-frame-pointer", \
		     "no-asynchronous-unwind-tables")

#define FAR static __attribute__((section("isolate_loader"), noinline, used))
#define NEAR static inline __attribute__((always_inline))

typedef unsigned long u64;
typedef long s64;

/* The image: an ELF header, two program headers, the parameters, the code. Its
 * address is far from where programs are linked to and from the heap. */
enum { headers = 256 };
#define LOAD_ADDRESS 0x10000000000UL
#define PARAMETERS ((const struct parameters *)(LOAD_ADDRESS + headers))

struct parameters {
	char path[PATH_MAX]; /* of the command's file */
	u64 dev, ino;        /* what it must be */
	char name[16];       /* of the process */
	char changed[96];    /* the error when it is not */
	u64 changed_size;
};

NEAR s64 sys(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	s64 ret;
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

__asm__(".pushsection isolate_loader,\"ax\",@progbits\n"
	"isolate_light_entry:\n"
	"	mov %rsp, %rdi\n"
	"	mov %rsp, %rbx\n"
	"	and $-16, %rsp\n"
	"	call isolate_light_main\n"
	"	mov %rbx, %rsp\n"
	"	xor %edx, %edx\n" /* nothing to be called at exit */
	"	jmp *%rax\n"
	".popsection\n");

/* One ELF file in memory. */
struct mapped {
	u64 base, entry, headers, count;
	u64 interpreter; /* address of the dynamic linker's path; 0 is none */
};

FAR void light_fail(void)
{
	sys(SYS_write, 2, (u64)PARAMETERS->changed, PARAMETERS->changed_size, 0, 0, 0);
	sys(SYS_exit_group, 125, 0, 0, 0, 0, 0);
}

NEAR u64 down(u64 n) { return n & ~4095UL; }
NEAR u64 up(u64 n) { return down(n + 4095); }

FAR u64 light_map(u64 at, u64 size, u64 prot, u64 flags, s64 fd, u64 offset)
{
	u64 p = sys(SYS_mmap, at, size, prot, flags, fd, offset);
	if (p > -4096UL || (at && p != at))
		light_fail();
	return p;
}

/* Maps one PT_LOAD: its part of the file, then zeroes. */
FAR void light_segment(s64 fd, u64 base, const Elf64_Phdr *h)
{
	u64 prot = (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_W ? PROT_WRITE : 0) | (h->p_flags & PF_X ? PROT_EXEC : 0);
	u64 begin = base + h->p_vaddr, file = begin + h->p_filesz, end = begin + h->p_memsz;
	if (h->p_filesz)
		light_map(down(begin), file - down(begin), prot, MAP_PRIVATE | MAP_FIXED, fd, down(h->p_offset));
	if (end == file)
		return;
	u64 zero = h->p_filesz ? up(file) : down(begin);
	if (prot & PROT_WRITE) /* to the end of the page: the dynamic linker relies on it */
		for (volatile char *p = (char *)file; (u64)p < zero; p++)
			*p = 0;
	if (end > zero)
		light_map(zero, end - zero, prot, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
}

FAR void light_load(s64 fd, struct mapped *m)
{
	struct {
		Elf64_Ehdr head;
		char rest[2048];
	} file;
	const Elf64_Phdr *h;
	u64 low = -1UL, high = 0;
	if (fd < 0 || sys(SYS_pread64, fd, (u64)&file, sizeof file, 0, 0, 0) != sizeof file ||
	    file.head.e_phoff + file.head.e_phnum * sizeof *h > sizeof file)
		light_fail();
	h = (const Elf64_Phdr *)((char *)&file + file.head.e_phoff);
	for (int i = 0; i < file.head.e_phnum; i++) {
		if (h[i].p_type != PT_LOAD)
			continue;
		low = down(h[i].p_vaddr) < low ? down(h[i].p_vaddr) : low;
		high = up(h[i].p_vaddr + h[i].p_memsz) > high ? up(h[i].p_vaddr + h[i].p_memsz) : high;
	}
	/* its addresses are taken first, all of them */
	u64 fixed = file.head.e_type == ET_EXEC;
	m->base = light_map(fixed ? low : 0, high - low, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed ? MAP_FIXED_NOREPLACE : 0), -1, 0) - low;
	m->entry = m->base + file.head.e_entry;
	m->headers = m->interpreter = 0;
	m->count = file.head.e_phnum;
	for (int i = 0; i < file.head.e_phnum; i++) {
		if (h[i].p_type == PT_LOAD)
			light_segment(fd, m->base, &h[i]);
		if (h[i].p_type == PT_LOAD && h[i].p_offset <= file.head.e_phoff && file.head.e_phoff < h[i].p_offset + h[i].p_filesz)
			m->headers = m->base + h[i].p_vaddr + file.head.e_phoff - h[i].p_offset;
		if (h[i].p_type == PT_INTERP)
			m->interpreter = m->base + h[i].p_vaddr;
	}
	sys(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* Maps the command and its dynamic linker and says where to go on. sp is the
 * stack as the kernel gave it to us: what it says of us is changed into what it
 * would say of the command. */
__attribute__((section("isolate_loader"), noinline, used, visibility("hidden")))
u64 isolate_light_main(u64 *sp)
{
	const struct parameters *p = PARAMETERS;
	struct mapped program, linker = {0};
	struct stat st;
	s64 fd = sys(SYS_open, (u64)p->path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	if (fd < 0 || sys(SYS_fstat, fd, (u64)&st, 0, 0, 0, 0) || st.st_dev != p->dev || st.st_ino != p->ino)
		light_fail();
	light_load(fd, &program);
	if (program.interpreter)
		light_load(sys(SYS_open, program.interpreter, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0), &linker);
	sys(SYS_prctl, 15 /* PR_SET_NAME */, (u64)p->name, 0, 0, 0, 0);
	u64 *a = sp + 1 + *sp + 1; /* arguments, then the environment */
	while (*a++)
		;
	for (; *a; a += 2) {
		if (a[0] == AT_PHDR)
			a[1] = program.headers;
		if (a[0] == AT_PHNUM)
			a[1] = program.count;
		if (a[0] == AT_ENTRY)
			a[1] = program.entry;
		if (a[0] == AT_BASE)
			a[1] = linker.base;
		if (a[0] == AT_EXECFN)
			a[1] = (u64)p->path;
	}
	return program.interpreter ? linker.entry : program.entry;
}

extern const char __start_isolate_loader[] __attribute__((visibility("hidden")));
extern const char __stop_isolate_loader[] __attribute__((visibility("hidden")));
extern const char isolate_light_entry[] __attribute__((visibility("hidden")));

/* What comes before the code. */
struct image {
	union {
		struct {
			Elf64_Ehdr elf;
			Elf64_Phdr code, stack;
		};
		char room[headers];
	};
	struct parameters parameters;
};

static void write_headers(struct image *m, size_t size)
{
	static const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
	memcpy(m->elf.e_ident, ident, sizeof ident);
	m->elf.e_type = ET_EXEC;
	m->elf.e_machine = EM_X86_64;
	m->elf.e_version = EV_CURRENT;
	m->elf.e_entry = LOAD_ADDRESS + sizeof *m + (isolate_light_entry - __start_isolate_loader);
	m->elf.e_phoff = sizeof m->elf;
	m->elf.e_ehsize = sizeof m->elf;
	m->elf.e_phentsize = sizeof m->code;
	m->elf.e_phnum = 2;
	m->code = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = LOAD_ADDRESS, .p_filesz = size, .p_memsz = size, .p_align = 4096};
	m->stack = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
}

/* Says what the command's file is. It must be readable: the loader maps it. */
static int write_parameters(struct parameters *p)
{
	static const char changed[] = "error: cannot go on: the file of isolate was exchanged while it ran; run it again\n";
	struct stat st;
	ssize_t n = readlink("/proc/self/exe", p->path, sizeof p->path - 1);
	if (n <= 0 || p->path[0] != '/' || access(p->path, R_OK) != 0 || stat(p->path, &st) != 0)
		return -1;
	struct stat self;
	if (stat("/proc/self/exe", &self) != 0 || st.st_dev != self.st_dev || st.st_ino != self.st_ino)
		return -1;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	strncpy(p->name, strrchr(p->path, '/') + 1, sizeof p->name - 1);
	memcpy(p->changed, changed, sizeof changed);
	p->changed_size = sizeof changed - 1;
	return 0;
}

/* Whether the executable is sealed: then this is what the loader has loaded. */
static int is_light(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (fd >= 0)
		close(fd);
	return seals > 0 && seals & F_SEAL_WRITE;
}

void isolate_light(char **argv)
{
	static struct image m;
	size_t code = __stop_isolate_loader - __start_isolate_loader;
	if (geteuid() == 0) /* libcontainer has an overlay for root, which costs as little */
		return;
	if (getauxval(AT_SECURE) || is_light() || write_parameters(&m.parameters) != 0)
		return;
	write_headers(&m, sizeof m + code);
	int fd = memfd_create("isolate", MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x10 /* MFD_EXEC */);
	if (fd < 0) /* before Linux 6.3 every memfd is executable */
		fd = memfd_create("isolate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return;
	if (write(fd, &m, sizeof m) == sizeof m && write(fd, __start_isolate_loader, code) == (ssize_t)code && fchmod(fd, 0511) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
		syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	close(fd);
}

#else

void isolate_light(char **argv) { (void)argv; }

#endif
