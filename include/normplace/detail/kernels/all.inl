// SPDX-License-Identifier: BSD-3-Clause
//
// Included by kernels.hpp once for each instruction set, with the compiler set to it: no guard, and no #include of any
// other header. NORMPLACE_INSTRUCTION_SET names the namespace, NORMPLACE_VECTOR_BYTES the width of a register.
namespace normplace::detail::NORMPLACE_INSTRUCTION_SET {

#include <normplace/detail/kernels/pack.inl>
//
#include <normplace/detail/kernels/exp.inl>
//
#include <normplace/detail/kernels/rows.inl>
//
#include <normplace/detail/kernels/activation.inl>
//
#include <normplace/detail/kernels/norm.inl>
//
#include <normplace/detail/kernels/dyt.inl>
//
#include <normplace/detail/kernels/dropout.inl>
//
#include <normplace/detail/kernels/softmax.inl>

}  // namespace normplace::detail::NORMPLACE_INSTRUCTION_SET

#undef NORMPLACE_INSTRUCTION_SET
#undef NORMPLACE_VECTOR_BYTES
