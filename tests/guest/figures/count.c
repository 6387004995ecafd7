// A plugin for QEMU 7.2: how many instructions a guest with one processor has executed, in its kernel and in its
// programs, at each MARK that a program executes (see writes.c). Argument: out=FILE.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// What it needs of QEMU's qemu-plugin.h, which Debian does not package.
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void on_translation(uint64_t plugin, struct qemu_plugin_tb *);
typedef void on_instruction(unsigned processor, void *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, on_translation *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, on_instruction *, int, void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
enum { ADD = 0, NO_REGISTERS = 0 };

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
static uint64_t kernel, user;
static FILE *out;

static void marked(unsigned processor, void *unused) {
    fprintf(out, "%lu %lu\n", kernel, user);
    fflush(out);
}

// Each block of instructions adds its length when it is entered; the kernel's addresses have the highest bit.
static void translated(uint64_t plugin, struct qemu_plugin_tb *block) {
    size_t length = qemu_plugin_tb_n_insns(block);
    uint64_t *sum = qemu_plugin_tb_vaddr(block) >> 63 ? &kernel : &user;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, sum, length);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *it = qemu_plugin_tb_get_insn(block, i);
        if (qemu_plugin_insn_size(it) == 8 && !memcmp(qemu_plugin_insn_data(it), "\x0f\x1f\x84\0MARK", 8))
            qemu_plugin_register_vcpu_insn_exec_cb(it, marked, NO_REGISTERS, NULL);
    }
}

EXPORT int qemu_plugin_install(uint64_t plugin, const void *info, int count, char **arguments) {
    if (count != 1 || strncmp(arguments[0], "out=", 4) || !(out = fopen(arguments[0] + 4, "w"))) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
    return 0;
}
