"""Takes the kernel proper out of a bzImage: an emulated guest is slow to unpack it by itself."""
import lzma
import struct
import subprocess
import sys
import zlib

image = open(sys.argv[1], "rb").read()
# The setup header says where the compressed kernel lies (Documentation/arch/x86/boot.rst).
setup_sectors = image[0x1F1] or 4
offset, length = struct.unpack_from("<II", image, 0x248)
start = (setup_sectors + 1) * 512 + offset
payload = image[start : start + length]
if payload.startswith(b"\xfd7zXZ\0"):
    kernel = lzma.LZMADecompressor().decompress(payload)
elif payload.startswith(b"\x28\xb5\x2f\xfd"):
    # The kernel's length follows the frame, which zstd complains of.
    kernel = subprocess.run(["zstd", "-dcq"], input=payload, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, check=False).stdout
elif payload.startswith(b"\x1f\x8b"):
    kernel = zlib.decompressobj(31).decompress(payload)
else:
    sys.exit(f"unknown compression of the kernel: {payload[:8].hex()}")
if not kernel.startswith(b"\x7fELF"):
    sys.exit("the unpacked kernel is not an ELF file")
open(sys.argv[2], "wb").write(kernel)
