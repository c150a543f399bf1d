"""Sine, cosine and tangent of doubles of any size, as LLVM IR: the slow path that kernels call lane by lane.

The short reduction of `kernel/math` ends where n·π/2 no longer fits a few numbers. Here x = m·2**e with
an integer m; the bits of 2/π that weigh 4 or more in x·2/π only add whole turns and are left out, and the
next 192 bits give the quadrant and at least 128 good bits of the fraction, in integers.

The text is part of the runtime library, compiled once and kept in the object cache.

Source: M. Payne and R. Hanek 1983.
"""

from __future__ import annotations

import struct

from braze.dtypes import F64
from braze.kernel.coefficients import TWO_OVER_PI, TWO_OVER_PI_BITS
from braze.kernel.math import FORMATS

WORDS = TWO_OVER_PI_BITS // 64 + 2
"""Words of the table: a window may reach past the last bit."""


def hexadecimal(value: float) -> str:
    """A double as LLVM writes it exactly."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _horner(name: str, coefficients: tuple[float, ...]) -> list[str]:
    lines = []
    value = hexadecimal(coefficients[-1])
    for k in range(len(coefficients) - 2, -1, -1):
        lines.append(
            f"  %{name}{k} = call double @llvm.fma.f64(double {value}, double %z, "
            f"double {hexadecimal(coefficients[k])})"
        )
        value = f"%{name}{k}"
    return lines


def huge_trig() -> str:
    """LLVM IR of `braze_sin_huge`, `braze_cos_huge` and `braze_tan_huge`, each `double(double)`."""
    form = FORMATS[F64]
    words = [TWO_OVER_PI >> (64 * k) & (2**64 - 1) for k in range(WORDS)]
    high, low, _ = form.half_pi
    return f"""
@braze_two_over_pi = private constant [{WORDS} x i64] [{", ".join(f"i64 {w}" for w in words)}]

declare double @llvm.fma.f64(double, double, double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
declare i256 @llvm.ctlz.i256(i256, i1)

define internal double @braze_trig_huge(double %x, i64 %shift) nounwind {{
entry:
  %bits = bitcast double %x to i64
  %biased = lshr i64 %bits, 52
  %exponent = and i64 %biased, 2047
  %finite = icmp ne i64 %exponent, 2047
  br i1 %finite, label %reduce, label %nan
nan:
  ret double 0x7FF8000000000000
reduce:
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %e = sub i64 %exponent, 1075
  ; the window begins with bit e - 1 of 2/pi, or with its first bit
  %wanted = sub i64 %e, 1
  %early = icmp slt i64 %wanted, 1
  %first = select i1 %early, i64 1, i64 %wanted
  %position = sub i64 {TWO_OVER_PI_BITS - 191}, %first
  %word = lshr i64 %position, 6
  %offset = and i64 %position, 63
  %address = getelementptr i64, ptr @braze_two_over_pi, i64 %word
  %loaded = load i256, ptr %address, align 8
  %offset256 = zext i64 %offset to i256
  %shifted = lshr i256 %loaded, %offset256
  %window = and i256 %shifted, {2**192 - 1}
  %m256 = zext i64 %m to i256
  %product = mul i256 %window, %m256
  ; in units of 2**-190 quarter turns; an early window is too fine by 2 - e bits
  %surplus = sub i64 2, %e
  %drop = select i1 %early, i64 %surplus, i64 0
  %drop256 = zext i64 %drop to i256
  %aligned = lshr i256 %product, %drop256
  %nearest = add i256 %aligned, {2**189}
  %quadrant256 = lshr i256 %nearest, 190
  %quadrant = trunc i256 %quadrant256 to i64
  %low = and i256 %nearest, {2**190 - 1}
  %signed = sub i256 %low, {2**189}
  %negative = icmp slt i256 %signed, 0
  %opposite = sub i256 0, %signed
  %size = select i1 %negative, i256 %opposite, i256 %signed
  %zeros = call i256 @llvm.ctlz.i256(i256 %size, i1 false)
  %top = shl i256 %size, %zeros
  %top_words = lshr i256 %top, 203
  %high_bits = trunc i256 %top_words to i64
  %rest_words = lshr i256 %top, 150
  %rest = trunc i256 %rest_words to i64
  %low_bits = and i64 %rest, 9007199254740991
  %high_part = uitofp i64 %high_bits to double
  %low_part = uitofp i64 %low_bits to double
  ; high part times 2**(13 - zeros), low part 2**53 finer
  %zeros64 = trunc i256 %zeros to i64
  %scale_exponent = sub i64 1036, %zeros64
  %scale_bits = shl i64 %scale_exponent, 52
  %scale = bitcast i64 %scale_bits to double
  %fine = fmul double %low_part, {hexadecimal(2.0**-53)}
  %h = fmul double %high_part, %scale
  %l = fmul double %fine, %scale
  %r0 = fmul double %h, {hexadecimal(high)}
  %minus_r0 = fneg double %r0
  %r0_error = call double @llvm.fma.f64(double %h, double {hexadecimal(high)}, double %minus_r0)
  %r1 = call double @llvm.fma.f64(double %h, double {hexadecimal(low)}, double %r0_error)
  %r2 = call double @llvm.fma.f64(double %l, double {hexadecimal(high)}, double %r1)
  %x_negative = icmp slt i64 %bits, 0
  %flip = xor i1 %negative, %x_negative
  %minus_r2 = fneg double %r2
  %r = select i1 %flip, double %minus_r0, double %r0
  %tail = select i1 %flip, double %minus_r2, double %r2
  %minus_quadrant = sub i64 0, %quadrant
  %signed_quadrant = select i1 %x_negative, i64 %minus_quadrant, i64 %quadrant
  %q = add i64 %signed_quadrant, %shift
  %z = fmul double %r, %r
{chr(10).join(_horner("s", form.polynomial("sin")))}
{chr(10).join(_horner("c", form.polynomial("cos")))}
  %cube = fmul double %z, %r
  %sine_tail = call double @llvm.fma.f64(double %cube, double %s0, double %tail)
  %sine = fadd double %r, %sine_tail
  %half = fmul double %z, 5.0e-1
  %main = fsub double 1.0, %half
  %main_back = fsub double 1.0, %main
  %main_error = fsub double %main_back, %half
  %minus_r = fneg double %r
  %cross = call double @llvm.fma.f64(double %minus_r, double %tail, double %main_error)
  %square = fmul double %z, %z
  %cosine_tail = call double @llvm.fma.f64(double %square, double %c0, double %cross)
  %cosine = fadd double %main, %cosine_tail
  %odd_bit = and i64 %q, 1
  %odd = icmp ne i64 %odd_bit, 0
  %value = select i1 %odd, double %cosine, double %sine
  %minus_value = fneg double %value
  %sign_bit = and i64 %q, 2
  %turned = icmp ne i64 %sign_bit, 0
  %result = select i1 %turned, double %minus_value, double %value
  ret double %result
}}

define double @braze_sin_huge(double %x) nounwind {{
  %y = call double @braze_trig_huge(double %x, i64 0)
  ret double %y
}}

define double @braze_cos_huge(double %x) nounwind {{
  %y = call double @braze_trig_huge(double %x, i64 1)
  ret double %y
}}

define double @braze_tan_huge(double %x) nounwind {{
  %sine = call double @braze_trig_huge(double %x, i64 0)
  %cosine = call double @braze_trig_huge(double %x, i64 1)
  %y = fdiv double %sine, %cosine
  ret double %y
}}
"""
