"""Loop programs as kernels in languages like C, with a dialect for each language.

A `Program` of loops becomes a `Plan`: the launches of each step and the text of their
kernels. May import `ir` and `lower`. Read `plan.py` first, then `parallel.py` and `scalars.py`;
`runner.py` runs a plan on whatever a device offers as a `Machine`.

    program = lower(graph, target).program      # local_bytes=0, has_symbolic_sizes=False
    made = plan(program, OpenClC(limits))
    made.text                                   # all kernels, or made.module(kernel) for one
    Runner(made, machine, constants, owned).run(inputs, outputs, arena)

# How to write a dialect

Derive from `Dialect` (or from `CFamily`, where a kernel has pointers) and fill in what is
abstract; `opencl_c.py` is an example. What the kernels rely on:

- **Lines** end in `;`, blocks in `}`; `if (...) {`, `else {`, `while (...) {`, `break;`, `x = y;`
  and `a[i]` of the arrays that `array` and `LocalArray` declare are as in C, and so are `&&`, `||`
  and `!` on conditions.
- **Variables** hold the dtypes of `register`: a half float is a float32 there. `convert` rounds it
  to the numbers a half has, `load` and `store` move its bits as those of a uint16.
- **Instructions**: `template(name, dtype, result)` gives the text of one, or None if the language
  has none. Then `bodies.py` makes it of others and it becomes a function of the text. These must
  be there, for the dtypes that a device has: `add sub mul neg` (integers wrap around), `div` of
  floats, `plain_div plain_rem` of integers (towards zero; never by 0), `plain_shl plain_shr` (by
  less than the width; the sign moves in signed ones), `and or xor not` (logical on bool), `eq ne`,
  `lt le gt ge` of numbers, `select` (operands: condition, yes, no), `cast` (between numbers whose
  values fit; integers wrap around), `bitcast` (same size), and of floats `abs sqrt floor ceil
  trunc round fma rem` and the functions `exp log ...` that `bodies.py` does not make.
  A language without `fma` says "({0} * {1} + {2})".
- **Indices** are int32, or int64 where an array is so large and `has_wide_index`.
- **Products**: `plan` takes a `claim` for what a library of the device computes: it gives None, or
  how to call the library, for a `Contraction`. The sums go where its result belongs, or to spare
  memory, from where a kernel does the rest.
- **Memory**: each LIR buffer is a parameter of its kernels. Buffers that may begin in the middle of
  a memory (slices of an arena, rows that a loop hands to its body) `has_offset`: an argument counts
  the elements before them. A dialect without `has_offsets` is for a device that passes the very
  place instead. Where a device cannot bind one memory twice to a kernel, or cannot
  cut it, set `owns_temporaries`: temporaries then have no offset and the runner's `owned` says
  where each is. Those with the same `offset`, size and dtype must share memory, for one may take
  the place of another in its last step.
- **Arguments** of a kernel, in order: the arrays, an int64 for each array that has an offset, an
  int32 for each of `signature.numbers`. A dialect may pass the numbers in another way.
- **Groups**: `signature.threads` is the size of a group, `launch.groups` how many there are;
  `Limits` bounds both. Barriers stand where all threads of a group come by.
- **Subgroups**: with `Limits.subgroup` reductions of a group use `passed`, and `place` is asked
  for a thread's `lane` and `subgroup`.
- **Many threads or few**: with `Limits.serial` a thread does a whole row, and a whole tile of a
  product in vectors where the dialect `has_vectors`; otherwise groups share these and long sums.
  If it does not gain by what a group `shares`, each thread computes a block of a product alone.
"""
