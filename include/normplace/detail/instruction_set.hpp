// SPDX-License-Identifier: BSD-3-Clause
//
// The instruction sets that the library tells apart, and which of them this processor has.
#pragma once

namespace normplace::detail {

enum class InstructionSet { baseline, avx2, avx512 };

/// The best of the three that this processor has.
inline InstructionSet instruction_set() {
#if defined(__x86_64__)
    static const InstructionSet best =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma")
            ? InstructionSet::avx512
        : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? InstructionSet::avx2
                                                                          : InstructionSet::baseline;
    return best;
#else
    return InstructionSet::baseline;
#endif
}

}  // namespace normplace::detail
