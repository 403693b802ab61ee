// SPDX-License-Identifier: BSD-3-Clause
//
// The placements, each written once. L is the number of layers, l the layer counted from 1.
//
//     PostLN             norm(x + f(x))                       the original Transformer; needs learning-rate warm-up
//     PreLN              x + f(norm(x))                       the default since GPT-2
//     NoNorm             x + f(x)                             a control: what happens without any norm
//     ResPostNorm        x + norm(f(x))                       Swin v2; OLMo 2's "reordered norm"
//     PeriLN             x + norm<out>(f(norm<in>(x)))        Gemma 2; the same formula as CogView's Sandwich-LN
//     DeepNorm           norm(alpha * x + f(x))               Post-LN for very deep stacks
//     LayerNormScaling   x + f(1/sqrt(l) * norm(x))           Pre-LN whose deep layers keep an effect
//
// PreLN is the one to copy for a placement of your own. Not here: placements that need a second stream (ResiDual, B2T),
// choose by layer or by kind (Mix-LN, HybridNorm), or put a norm inside the sublayer (Sub-LN, QK-norm).
#pragma once

#include <cmath>

#include <normplace/placement/placement.hpp>

namespace normplace {

/// The norm after the residual addition. Vaswani et al. 2017, arXiv:1706.03762; Xiong et al. 2020, arXiv:2002.04745.
/// The stream leaves each block normalised, so there is no final norm.
struct PostLN {
    static constexpr auto name = "post-ln";
    static constexpr auto formula = norm(x + f(x));
    static constexpr bool final_norm = false;
};

/// The norm inside the residual branch. Xiong et al. 2020, arXiv:2002.04745.
struct PreLN {
    static constexpr auto name = "pre-ln";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
};

/// No norm anywhere: the control.
struct NoNorm {
    static constexpr auto name = "none";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = false;
};

/// The norm at the end of the residual branch. Liu et al. 2021 (Swin v2), arXiv:2111.09883, who start the gain at 0;
/// here it starts at 1, as in OLMo 2.
struct ResPostNorm {
    static constexpr auto name = "res-post-norm";
    static constexpr auto formula = x + norm(f(x));
    static constexpr bool final_norm = true;
};

/// A norm on both sides of the sublayer. Kim et al. 2025, arXiv:2502.02732; Ding et al. 2021 (Sandwich-LN),
/// arXiv:2105.13290. Peri-LN's additional norm of the embedding is the embedding's, not the block's.
struct PeriLN {
    static constexpr auto name = "peri-ln";
    static constexpr auto formula = x + norm<out>(f(norm<in>(x)));
    static constexpr bool final_norm = true;
};
using SandwichLN = PeriLN;

/// Post-LN with a larger skip path and a smaller start: alpha = (2L)^(1/4) on the stream, gain (8L)^(-1/4) on W_v, W_o,
/// W_1 and W_2 (not on W_q, W_k). The constants of a single stack. Wang et al. 2022, arXiv:2203.00555.
struct DeepNorm {
    static constexpr auto name = "deep-norm";
    static constexpr Scalar alpha =
        scalar("alpha", [](const Depth& depth) { return std::pow(2.0 * static_cast<double>(depth.layers), 0.25); });
    static constexpr auto formula = norm(alpha * x + f(x));
    static constexpr bool final_norm = false;

    static double gain(Role role, const Depth& depth) {
        switch (role) {
            case Role::value:
            case Role::out:
            case Role::linear1:
            case Role::linear2: return std::pow(8.0 * static_cast<double>(depth.layers), -0.25);
            default: return 1.0;
        }
    }
};

/// Pre-LN whose normalised input shrinks with the layer, for both sublayers alike. Not meant to be combined with
/// GPT-2's 1/sqrt(2L) initialization. Sun et al. 2025, arXiv:2502.05795.
struct LayerNormScaling {
    static constexpr auto name = "ln-scaling";
    static constexpr Scalar scale =
        scalar("1/sqrt(l)", [](const Depth& depth) { return 1.0 / std::sqrt(static_cast<double>(depth.layer)); });
    static constexpr auto formula = x + f(scale * norm(x));
    static constexpr bool final_norm = true;
};

}  // namespace normplace
