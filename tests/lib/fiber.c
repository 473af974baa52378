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

static ucontext_t *context_of(fiber *f) {
    if (!f->more)
        f->more = calloc(1, sizeof(ucontext_t));
    if (!f->more)
        abort();
    return f->more;
}

void fiber_begin(fiber *f, void (*entry)(void)) {
    // cppcheck-suppress getcontextCalled
    if (getcontext(context_of(f)) != 0)
        abort();
    ucontext_t *c = f->more;
    c->uc_stack.ss_sp = f->stack + 4096;
    c->uc_stack.ss_size = STACK_SIZE - 4096;
    // cppcheck-suppress makecontextCalled
    makecontext(c, entry, 0);
}

void fiber_switch(fiber *from, fiber *to) {
    // cppcheck-suppress swapcontextCalled
    (void)swapcontext(context_of(from), context_of(to));
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
        free(f->more);
        *f = (fiber){0};
    }
}
