"""A fused multiply-add for targets that have no such instruction.

f32 takes its way through f64: the product of two f32 is exact there, and a sum rounded to odd, rounded again
to f32, is the exact sum rounded once. f64 is computed in integers of 256 bits, by a function that is called
lane by lane: slow, but right for subnormals, overflow and ties.

Sources: S. Boldo & G. Melquiond 2008, Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braze.targets.opcodes import Writer

NAME = "braze_fma"

# x = xm * 2^xe and so on, with the mantissas as they are, subnormals too. The product, 106 bits, stands 64
# bits above the unit of the sum, so that what is shifted out of z below it counts as a last bit that is set
# ("sticky"). Where z stands so far above that it would not fit, the product is the sticky bit.
FUNCTION = f"""define internal double @{NAME}(double %x, double %y, double %z) nounwind noinline {{
entry:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %zb = bitcast double %z to i64
  %xa = and i64 %xb, 9223372036854775807
  %ya = and i64 %yb, 9223372036854775807
  %za = and i64 %zb, 9223372036854775807
  %xsize = sub i64 %xa, 1
  %ysize = sub i64 %ya, 1
  %xordinary = icmp ult i64 %xsize, 9218868437227405311
  %yordinary = icmp ult i64 %ysize, 9218868437227405311
  %factors = and i1 %xordinary, %yordinary
  br i1 %factors, label %finite, label %ieee
ieee:
  ; A factor is zero, infinite or NaN: the product is exact.
  %ep = fmul double %x, %y
  %es = fadd double %ep, %z
  ret double %es
finite:
  %zfinite = icmp ult i64 %za, 9218868437227405312
  br i1 %zfinite, label %zeros, label %addend
addend:
  %az = fadd double %z, 0.0
  ret double %az
zeros:
  %zzero = icmp eq i64 %za, 0
  br i1 %zzero, label %product, label %general
product:
  %p0 = fmul double %x, %y
  ret double %p0
general:
  %xf = lshr i64 %xa, 52
  %yf = lshr i64 %ya, 52
  %zf = lshr i64 %za, 52
  %xn = call i64 @llvm.umin.i64(i64 %xf, i64 1)
  %yn = call i64 @llvm.umin.i64(i64 %yf, i64 1)
  %zn = call i64 @llvm.umin.i64(i64 %zf, i64 1)
  %xi = shl i64 %xn, 52
  %yi = shl i64 %yn, 52
  %zi = shl i64 %zn, 52
  %xl = and i64 %xa, 4503599627370495
  %yl = and i64 %ya, 4503599627370495
  %zl = and i64 %za, 4503599627370495
  %xm = or i64 %xl, %xi
  %ym = or i64 %yl, %yi
  %zm = or i64 %zl, %zi
  %xg = call i64 @llvm.umax.i64(i64 %xf, i64 1)
  %yg = call i64 @llvm.umax.i64(i64 %yf, i64 1)
  %zg = call i64 @llvm.umax.i64(i64 %zf, i64 1)
  %xe = sub i64 %xg, 1075
  %ye = sub i64 %yg, 1075
  %ze = sub i64 %zg, 1075
  %xw = zext i64 %xm to i256
  %yw = zext i64 %ym to i256
  %zw = zext i64 %zm to i256
  %p = mul i256 %xw, %yw
  %pup = shl i256 %p, 64
  %psum = add i64 %xe, %ye
  %pe = sub i64 %psum, 64
  %shift = sub i64 %ze, %pe
  %far = icmp sgt i64 %shift, 190
  %below = icmp slt i64 %shift, 0
  %zup64 = shl i256 %zw, 64
  %down0 = sub i64 0, %shift
  %down1 = call i64 @llvm.smax.i64(i64 %down0, i64 0)
  %down2 = call i64 @llvm.umin.i64(i64 %down1, i64 64)
  %down = zext i64 %down2 to i256
  %zdown = lshr i256 %zw, %down
  %zback = shl i256 %zdown, %down
  %lost = icmp ne i256 %zback, %zw
  %sticky = zext i1 %lost to i256
  %zlow = or i256 %zdown, %sticky
  %up0 = call i64 @llvm.smax.i64(i64 %shift, i64 0)
  %up1 = call i64 @llvm.umin.i64(i64 %up0, i64 190)
  %up = zext i64 %up1 to i256
  %zhigh = shl i256 %zw, %up
  %znear = select i1 %below, i256 %zlow, i256 %zhigh
  %zterm = select i1 %far, i256 %zup64, i256 %znear
  %pterm = select i1 %far, i256 1, i256 %pup
  %zunit = sub i64 %ze, 64
  %unit = select i1 %far, i64 %zunit, i64 %pe
  %psign0 = xor i64 %xb, %yb
  %psign = icmp slt i64 %psign0, 0
  %zsign = icmp slt i64 %zb, 0
  %pminus = sub i256 0, %pterm
  %zminus = sub i256 0, %zterm
  %pval = select i1 %psign, i256 %pminus, i256 %pterm
  %zval = select i1 %zsign, i256 %zminus, i256 %zterm
  %total = add i256 %pval, %zval
  %empty = icmp eq i256 %total, 0
  br i1 %empty, label %cancel, label %round
cancel:
  ret double 0.0
round:
  %negative = icmp slt i256 %total, 0
  %minus = sub i256 0, %total
  %size = select i1 %negative, i256 %minus, i256 %total
  %leading0 = call i256 @llvm.ctlz.i256(i256 %size, i1 true)
  %leading = trunc i256 %leading0 to i64
  %bits = sub i64 256, %leading
  %top = add i64 %bits, %unit
  %normal = sub i64 %top, 53
  %last = call i64 @llvm.smax.i64(i64 %normal, i64 -1074)
  %drop0 = sub i64 %last, %unit
  %exact = icmp sle i64 %drop0, 0
  %grow0 = sub i64 0, %drop0
  %grow1 = call i64 @llvm.smax.i64(i64 %grow0, i64 0)
  %grow2 = call i64 @llvm.umin.i64(i64 %grow1, i64 255)
  %grow = zext i64 %grow2 to i256
  %grown = shl i256 %size, %grow
  %drop1 = call i64 @llvm.smax.i64(i64 %drop0, i64 1)
  %drop2 = call i64 @llvm.umin.i64(i64 %drop1, i64 255)
  %drop = zext i64 %drop2 to i256
  %kept = lshr i256 %size, %drop
  %floor = shl i256 %kept, %drop
  %rest = sub i256 %size, %floor
  %one = shl i256 1, %drop
  %half = lshr i256 %one, 1
  %more = icmp ugt i256 %rest, %half
  %tie = icmp eq i256 %rest, %half
  %odd = trunc i256 %kept to i1
  %tieup = and i1 %tie, %odd
  %upwards = or i1 %more, %tieup
  %step = zext i1 %upwards to i256
  %rounded = add i256 %kept, %step
  %mantissa0 = select i1 %exact, i256 %grown, i256 %rounded
  %mantissa = trunc i256 %mantissa0 to i64
  ; The mantissa's leading bit, where there is one, adds the 1 that is missing in the exponent.
  %field = add i64 %last, 1074
  %placed = shl i64 %field, 52
  %found = add i64 %placed, %mantissa
  %capped = call i64 @llvm.umin.i64(i64 %found, i64 9218868437227405312)
  %signed = or i64 %capped, -9223372036854775808
  %result = select i1 %negative, i64 %signed, i64 %capped
  %out = bitcast i64 %result to double
  ret double %out
}}"""
DECLARATIONS = (
    "declare i64 @llvm.umin.i64(i64, i64)",
    "declare i64 @llvm.umax.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i256 @llvm.ctlz.i256(i256, i1)",
)


def fma_f64(w: Writer, n: int, operands: list[str]) -> str:
    """Call the function for each of n lanes."""
    w.define(NAME, FUNCTION, DECLARATIONS)
    if n == 1:
        return w.value(
            f"call double @{NAME}(double {operands[0]}, double {operands[1]}, double {operands[2]})"
        )
    result = "poison"
    for lane in range(n):
        parts = [w.value(f"extractelement <{n} x double> {o}, i64 {lane}") for o in operands]
        one = w.value(f"call double @{NAME}({', '.join(f'double {p}' for p in parts)})")
        result = w.value(f"insertelement <{n} x double> {result}, double {one}, i64 {lane}")
    return result


def fma_f32(w: Writer, n: int, operands: list[str]) -> str:
    """Multiply and add in f64, round to odd, then to f32."""

    def of(kind: str) -> str:
        return kind if n == 1 else f"<{n} x {kind}>"

    def every(kind: str, value: str) -> str:
        return value if n == 1 else f"splat ({kind} {value})"

    wide, narrow, bits, flag = of("double"), of("float"), of("i64"), of("i1")
    x, y, z = (w.value(f"fpext {narrow} {o} to {wide}") for o in operands)
    product = w.value(f"fmul {wide} {x}, {y}")
    total = w.value(f"fadd {wide} {product}, {z}")
    # The error of the sum, exactly (D. Knuth's two-sum); NaN where the sum is not finite.
    back = w.value(f"fsub {wide} {total}, {product}")
    rest = w.value(f"fsub {wide} {total}, {back}")
    first = w.value(f"fsub {wide} {product}, {rest}")
    second = w.value(f"fsub {wide} {z}, {back}")
    error = w.value(f"fadd {wide} {first}, {second}")
    pattern = w.value(f"bitcast {wide} {total} to {bits}")
    last = w.value(f"trunc {bits} {pattern} to {flag}")
    even = w.value(f"xor {flag} {last}, {every('i1', 'true')}")
    inexact = w.value(f"fcmp one {wide} {error}, {every('double', '0.0')}")
    moves = w.value(f"and {flag} {even}, {inexact}")
    above = w.value(f"fcmp ogt {wide} {error}, {every('double', '0.0')}")
    positive = w.value(f"fcmp ogt {wide} {total}, {every('double', '0.0')}")
    inwards = w.value(f"xor {flag} {above}, {positive}")
    step = w.value(f"select {flag} {inwards}, {bits} {every('i64', '-1')}, {bits} {every('i64', '1')}")
    moved = w.value(f"add {bits} {pattern}, {step}")
    chosen = w.value(f"select {flag} {moves}, {bits} {moved}, {bits} {pattern}")
    odd = w.value(f"bitcast {bits} {chosen} to {wide}")
    return w.value(f"fptrunc {wide} {odd} to {narrow}")
