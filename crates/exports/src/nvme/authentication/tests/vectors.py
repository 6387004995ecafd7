#!/usr/bin/env python3
"""Makes vectors.txt, and with `--primes` the primes of groups.rs, from what RFC 7919 and NVM Express
say alone: nothing here is shared with what is tested. `python3 vectors.py > vectors.txt`"""

import base64
import hashlib
import hmac
import random
import sys
import zlib

# RFC 7919, appendix A: bits, and what is added to e's digits until p and (p - 1) / 2 are prime.
GROUPS = {1: (2048, 560316), 2: (3072, 2625351), 3: (4096, 5736041), 4: (6144, 15705020), 5: (8192, 10965728)}
HASHES = {1: hashlib.sha256, 2: hashlib.sha384, 3: hashlib.sha512}
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
SUBSYSTEM = "nqn.2014-08.org.nvmexpress:uuid:0198f3a0-1111-7222-8333-944444444444"


def e_times_power_of_two(bits):
    """The integer part of e * 2**bits."""
    one = 1 << (bits + 64)
    total, term, n = 0, one, 0
    while term:
        total += term
        n += 1
        term //= n
    return total >> 64


def prime(group):
    bits, added = GROUPS[group]
    return 2**bits - 2 ** (bits - 64) + (e_times_power_of_two(bits - 130) + added) * 2**64 - 1


def is_prime(number, rounds=4):
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(rounds):
        x = pow(random.randrange(2, number - 1), odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True


def mac(hash_id, key, *parts):
    return hmac.new(key, b"".join(parts), HASHES[hash_id]).digest()


def secret(transform, key):
    checked = key + zlib.crc32(key).to_bytes(4, "little")
    return "DHHC-1:%02x:%s:" % (transform, base64.b64encode(checked).decode())


def key_of(transform, key, name):
    return mac(transform, key, name.encode(), b"NVMe-over-Fabrics") if transform else key


def response(hash_id, key, challenge, sequence, transaction, role, first, second):
    number = sequence.to_bytes(4, "little") + transaction.to_bytes(2, "little") + b"\0"
    return mac(hash_id, key, challenge, number, role, first.encode(), b"\0", second.encode())


def augmented(hash_id, session, challenge):
    return challenge if session is None else mac(hash_id, HASHES[hash_id](session).digest(), challenge)


def vector(draw, hash_id, group, transform):
    length = [32, 32, 48, 64][transform]
    host_key, controller_key = draw.randbytes(length), draw.randbytes(length)
    size = HASHES[hash_id]().digest_size
    c1, c2 = draw.randbytes(size), draw.randbytes(size)
    s1, s2, transaction = draw.randrange(1, 2**32), draw.randrange(1, 2**32), draw.randrange(2**16)
    line = {"hash": hash_id, "group": group, "host_secret": secret(transform, host_key),
            "controller_secret": secret(transform, controller_key), "transaction": transaction,
            "s1": s1, "s2": s2, "c1": c1.hex(), "c2": c2.hex()}
    session = None
    if group:
        p, width = prime(group), GROUPS[group][0] // 8
        own, others = draw.randbytes(64), draw.randbytes(64)
        ours, theirs = (pow(2, int.from_bytes(x, "big"), p) for x in (own, others))
        session = pow(theirs, int.from_bytes(own, "big"), p).to_bytes(width, "big")
        assert session == pow(ours, int.from_bytes(others, "big"), p).to_bytes(width, "big")
        line |= {"exponent": own.hex(), "ours": ours.to_bytes(width, "big").hex(),
                 "theirs": theirs.to_bytes(width, "big").hex(), "session": session.hex()}
    line["host_response"] = response(
        hash_id, key_of(transform, host_key, HOST), augmented(hash_id, session, c1), s1, transaction,
        b"HostHost", HOST, SUBSYSTEM).hex()
    line["controller_response"] = response(
        hash_id, key_of(transform, controller_key, SUBSYSTEM), augmented(hash_id, session, c2), s2, transaction,
        b"Controller", SUBSYSTEM, HOST).hex()
    return " ".join("%s=%s" % pair for pair in line.items())


def main():
    if "--primes" in sys.argv:
        for group in GROUPS:
            p = prime(group)
            assert is_prime(p) and is_prime((p - 1) // 2)
            print(group, "%X" % p)
        return
    draw = random.Random(7919)
    for hash_id in HASHES:
        for group in [0, *GROUPS]:
            print(vector(draw, hash_id, group, (hash_id + group) % 4))


main()
