// SPDX-License-Identifier: BSD-3-Clause
//
// A placement as the estimator walks through a stack of it: the plan of its formula at each place, and the end of the
// stack.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <normplace/analysis/loss_moments.hpp>
#include <normplace/analysis/moments.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace::detail {

/// The plan of a formula at one place after another. Where it is the same everywhere it is made once.
class Plans {
public:
    explicit Plans(const Formula& formula) : formula_(formula), fixed_(!syntax::depends_on_depth(formula)) {}

    /// Valid until the next call.
    const Plan& at(const Depth& depth) {
        if (!fixed_ || plan_.results.empty()) plan_ = plan(formula_, depth);
        return plan_;
    }

private:
    Formula formula_;
    bool fixed_;
    Plan plan_;
};

/// Whether an expression is one norm's value.
inline bool is_norm(const Plan& plan, const Plan::Terms& terms) {
    return terms.size() == 1 && terms[0].factor == 1.0 && terms[0].source >= plan.streams &&
           plan.steps[terms[0].source - plan.streams].kind == Node::Kind::norm;
}

class NoSublayerMoments final : public SublayerMoments {
    TokenKernel forward(const TokenKernel& input, const Fluctuation&) override { return input; }
    double transfer() const override { return 0.0; }
    double fresh(const Fluctuation&) const override { return 0.0; }
    double norm_variance() const override { return 0.0; }
    TokenKernel backward(const TokenKernel& gradient) override { return gradient; }
};

/// From the streams to the stack's output.
class OutputMoments {
public:
    /// @param before_norm stop before the norm that the output is, if it is one that normalises: `loss_moments` reads
    /// that by itself
    /// @param end the place of the stack's last layer
    OutputMoments(const AnyPlacement& placement, const TokenLayout& layout, double width, const NormMoments& norm,
                  bool before_norm, const Depth& end = {})
        : layout_(layout), width_(width), plan_(plan(placement.output, end, placement.streams())) {
        ends_in_norm_ =
            before_norm && is_norm(plan_, plan_.results[0]) && plan_.norms.back().start == 1.0 && normalises(norm.kind);
        if (ends_in_norm_) {
            plan_.results[0] = plan_.steps.back().input;
            plan_.steps.pop_back();
            plan_.norms.pop_back();
        }
        block_.emplace(plan_, layout, width, norm, no_sublayer_);
    }
    OutputMoments(const OutputMoments&) = delete;
    OutputMoments& operator=(const OutputMoments&) = delete;

    /// Whether it stopped before a norm.
    bool ends_in_norm() const { return ends_in_norm_; }
    TokenKernel forward(const StreamKernels& streams, StreamFluctuations& fluctuations) {
        return block_->forward(streams, fluctuations)[0];
    }
    StreamKernels backward(TokenKernel gradient) { return block_->backward(StreamKernels(std::move(gradient))); }
    /// The final norm, if it was passed.
    const std::vector<NormSquares>& norms() const { return block_->norms; }

    /// What a gradient lean h along the output h gives to a norm that ends the first stream, and to the final norm.
    /// Needs forward's state.
    NormSquares at_first_stream(double lean, const TokenKernel& h, const StreamKernels& streams) const {
        if (ends_in_norm_) return {};  // which takes it away
        return leaning(layout_, width_, lean, h, streams[0], block_->result_with_stream());
    }
    NormSquares at_final_norm(double lean, const TokenKernel& h) const {
        if (block_->norms.empty()) return {};
        return leaning(layout_, width_, lean, h, block_->norm_value(0), block_->result_with_norm(0));
    }

private:
    const TokenLayout& layout_;
    double width_;
    Plan plan_;
    bool ends_in_norm_ = false;
    NoSublayerMoments no_sublayer_;
    std::optional<BlockMoments> block_;
};

}  // namespace normplace::detail
