// writes DEVICE COUNT DEPTH: so many direct writes of 4 KiB at random places of its first 64 MiB, after a tenth of
// them to warm up. At depth 1 by pwrite, else by io_submit. The MARK is an instruction that does nothing: see count.c.
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK() __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0, 'M', 'A', 'R', 'K'" ::: "memory")
enum { BLOCK = 4096, BLOCKS = 16384, DEEPEST = 64 };
static uint64_t state = 88172645463325252;

static off_t place(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % BLOCKS * BLOCK;
}

static void one_by_one(int device, char *data, int count) {
    while (count--)
        if (pwrite(device, data, BLOCK, place()) != BLOCK) err(1, "write");
}

static void at_depth(int device, char *data, int count, int depth) {
    aio_context_t context = 0;
    struct iocb requests[DEEPEST], *ready[DEEPEST];
    struct io_event events[DEEPEST];
    int free[DEEPEST], left = depth, under_way = 0;
    if (syscall(SYS_io_setup, depth, &context)) err(1, "io_setup");
    for (int i = 0; i < depth; i++) free[i] = i;
    while (count || under_way) {
        int begun = 0;
        for (; count && left; count--) {
            int i = free[--left];
            requests[i] = (struct iocb){
                .aio_data = i, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = device,
                .aio_buf = (uintptr_t)(data + i * BLOCK), .aio_nbytes = BLOCK, .aio_offset = place(),
            };
            ready[begun++] = &requests[i];
        }
        if (begun && syscall(SYS_io_submit, context, begun, ready) != begun) err(1, "io_submit");
        under_way += begun;
        int ended = syscall(SYS_io_getevents, context, 1, DEEPEST, events, NULL);
        if (ended < 1) err(1, "io_getevents");
        for (int i = 0; i < ended; i++) {
            if (events[i].res != BLOCK) errx(1, "write: %ld", (long)events[i].res);
            free[left++] = events[i].data;
        }
        under_way -= ended;
    }
    syscall(SYS_io_destroy, context);
}

static void writes(int device, char *data, int count, int depth) {
    if (depth == 1) one_by_one(device, data, count);
    else at_depth(device, data, count, depth);
}

int main(int arguments, char **argument) {
    if (arguments != 4) errx(2, "writes DEVICE COUNT DEPTH");
    int count = atoi(argument[2]), depth = atoi(argument[3]), device = open(argument[1], O_RDWR | O_DIRECT);
    char *data = aligned_alloc(BLOCK, BLOCK * DEEPEST);
    if (device < 0 || depth < 1 || depth > DEEPEST || !data) err(1, "%s", argument[1]);
    memset(data, 0x5a, BLOCK * DEEPEST);
    writes(device, data, count / 10, depth);
    MARK();
    writes(device, data, count, depth);
    MARK();
}
