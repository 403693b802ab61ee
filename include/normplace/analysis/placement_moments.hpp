// SPDX-License-Identifier: BSD-3-Clause
//
// A placement as the estimator uses it at run time, without its type: only the walk over its formula is compiled for
// each placement, the estimator once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <normplace/analysis/moments.hpp>
#include <normplace/analysis/sublayer_moments.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace::detail {

/// BlockMoments of some placement.
class AnyBlockMoments {
public:
    virtual ~AnyBlockMoments() = default;
    virtual TokenKernel forward(const TokenKernel& stream, Fluctuation& fluctuation) = 0;
    virtual void prepare(const TokenKernel& stream, const Fluctuation& fluctuation) = 0;
    virtual TokenKernel backward(const TokenKernel& gradient) = 0;
    virtual std::span<NormSquares> norms() = 0;
};

template <class P>
class BlockMomentsOf final : public AnyBlockMoments {
public:
    BlockMomentsOf(const TokenLayout& layout, double width, double epsilon, const Depth& depth,
                   SublayerMoments& sublayer)
        : block_(layout, width, epsilon, depth, sublayer) {}
    TokenKernel forward(const TokenKernel& stream, Fluctuation& fluctuation) override {
        return block_.forward(stream, fluctuation);
    }
    void prepare(const TokenKernel& stream, const Fluctuation& fluctuation) override {
        block_.prepare(stream, fluctuation);
    }
    TokenKernel backward(const TokenKernel& gradient) override { return block_.backward(gradient); }
    std::span<NormSquares> norms() override { return block_.norms; }

private:
    BlockMoments<P, SublayerMoments> block_;
};

template <class P>
std::unique_ptr<AnyBlockMoments> make_block(const TokenLayout& layout, double width, double epsilon, const Depth& depth,
                                            SublayerMoments& sublayer) {
    return std::make_unique<BlockMomentsOf<P>>(layout, width, epsilon, depth, sublayer);
}

struct PlacementMoments {
    bool final_norm;
    bool ends_in_norm;         // the formula is norm(...)
    std::size_t closing_norm;  // and this is that norm's slot
    double (*gain)(Role, const Depth&);
    std::unique_ptr<AnyBlockMoments> (*block)(const TokenLayout&, double width, double epsilon, const Depth&,
                                              SublayerMoments&);
};

template <Placement P>
constexpr PlacementMoments placement_moments() {
    PlacementMoments result{P::final_norm, false, 0, &initial_gain<P>, &make_block<P>};
    if constexpr (requires { decltype(P::formula)::slot; }) {
        result.ends_in_norm = true;
        result.closing_norm = syntax::slot_index(syntax::slots(P::formula), decltype(P::formula)::slot);
    }
    return result;
}

}  // namespace normplace::detail
