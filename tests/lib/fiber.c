/*
 * Switching stacks. The system's own functions for it ask the kernel for the signal mask each time, which
 * would be most of what a step costs; so where the processor is known what must survive a call is saved here.
 */
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_SIZE ((size_t)1024 * 1024)
#define STACKS 512

static fiber stacks[STACKS];
static unsigned given;

static char *new_stack(void) {
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    char *p = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, how, -1, 0);
    if (p == MAP_FAILED || mprotect(p, 4096, PROT_NONE) != 0)
        abort();
    return p;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define BY_THE_SYSTEM 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BY_THE_SYSTEM 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define BY_ADDRESSES 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define BY_ADDRESSES 1
#endif
#endif
#ifdef BY_ADDRESSES
#include <sanitizer/common_interface_defs.h>
#endif

#if defined __x86_64__ && !defined BY_THE_SYSTEM

void fiber__swap(void **save, void *to);

__asm__(".text\n"
        ".globl fiber__swap\n"
        ".hidden fiber__swap\n"
        ".type fiber__swap, @function\n"
        "fiber__swap:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size fiber__swap, .-fiber__swap\n");

void fiber_begin(fiber *f, void (*entry)(void)) {
    void **top = (void **)(f->stack + STACK_SIZE);
    *--top = NULL; /* where entry would return to; the stack is aligned as a call leaves it */
    *--top = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->at = top;
}

void fiber_switch(fiber *from, fiber *to) {
    fiber__swap(&from->at, to->at);
}

#elif defined __aarch64__ && !defined BY_THE_SYSTEM

void fiber__swap(void **save, void *to);

__asm__(".text\n"
        ".globl fiber__swap\n"
        ".hidden fiber__swap\n"
        ".type fiber__swap, %function\n"
        "fiber__swap:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size fiber__swap, .-fiber__swap\n");

void fiber_begin(fiber *f, void (*entry)(void)) {
    void **top = (void **)(f->stack + STACK_SIZE) - 20;
    for (int i = 0; i < 20; i++)
        top[i] = NULL;
    top[11] = (void *)(uintptr_t)entry; /* x30 */
    f->at = top;
}

void fiber_switch(fiber *from, fiber *to) {
    fiber__swap(&from->at, to->at);
}

#else

typedef struct {
    ucontext_t system;
    void (*entry)(void);
    /* AddressSanitizer's stack beside this one; kept, as this one is, for the next entry */
    void *shadow;
} context;

static context own; /* of the program's own stack */

/* It lies at the upper end of the stack, which goes down to a page that may not be used. */
#define CONTEXT_SIZE ((sizeof(context) + 4095) / 4096 * 4096)
#define USED_SIZE (STACK_SIZE - 4096 - CONTEXT_SIZE)

static context *context_of(const fiber *f) {
    return f->stack ? (void *)(f->stack + STACK_SIZE - CONTEXT_SIZE) : &own;
}

static context *running;

#ifdef BY_ADDRESSES
void __asan_handle_no_return(void);

/* AddressSanitizer must know on which stack the program goes on. */
static const void *own_stack;
static size_t own_size;

static void arrive(void) {
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(running->shadow, &stack, &size);
    if (!own_stack) {
        own_stack = stack;
        own_size = size;
    }
}

static void leave(const fiber *from, const fiber *to) {
    __sanitizer_start_switch_fiber(&context_of(from)->shadow,
                                   to->stack ? to->stack + 4096 : own_stack,
                                   to->stack ? USED_SIZE : own_size);
}

/* What ran on this stack before was left where it waited, and its frames go on in the shadow. */
static void forget_former_frames(void) {
    __asan_handle_no_return();
}
#else
static void arrive(void) {}

static void leave(const fiber *from, const fiber *to) {
    (void)from;
    (void)to;
}

static void forget_former_frames(void) {}
#endif

static void start(void) {
    arrive();
    forget_former_frames();
    running->entry();
}

void fiber_begin(fiber *f, void (*entry)(void)) {
    // cppcheck-suppress getcontextCalled
    if (getcontext(&context_of(f)->system) != 0)
        abort();
    context *c = context_of(f);
    c->entry = entry;
    c->system.uc_stack.ss_sp = f->stack + 4096;
    c->system.uc_stack.ss_size = USED_SIZE;
    // cppcheck-suppress makecontextCalled
    makecontext(&c->system, start, 0);
}

void fiber_switch(fiber *from, fiber *to) {
    running = context_of(to);
    leave(from, to);
    // cppcheck-suppress swapcontextCalled
    (void)swapcontext(&context_of(from)->system, &context_of(to)->system);
    arrive();
}

#endif

fiber fiber_spare(void) {
    if (given == STACKS)
        abort();
    if (!stacks[given].stack)
        stacks[given].stack = new_stack();
    return stacks[given++];
}

void fibers_reset(void) {
    given = 0;
}

void fibers_free(void) {
    for (given = STACKS; given > 0; given--) {
        fiber *f = &stacks[given - 1];
        if (f->stack)
            (void)munmap(f->stack, STACK_SIZE);
        *f = (fiber){0};
    }
}
