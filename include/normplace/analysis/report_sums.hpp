// SPDX-License-Identifier: BSD-3-Clause
//
// Fills a report from one input or from several: squares of gradient norms and values of moments are summed, and
// `finish` takes means and roots. Each norm is judged as it is added, by what the gradient has come through so far.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <normplace/analysis/moments.hpp>
#include <normplace/analysis/report.hpp>
#include <normplace/analysis/token_kernel.hpp>

namespace normplace::detail {

class ReportSums {
public:
    void next_input() {
        ++inputs_;
        path = {};
    }

    GradientPath path;  ///< of the input being added

    static void add(Moment& moment, double value) {
        moment.value = std::isnan(moment.value) ? value : moment.value + value;
    }
    /// What is judged before it is added has no number where that fails.
    static void judge(GradientNorm& gradient, const Judgement& judgement) {
        Judgement worst{gradient.validity, gradient.limit};
        worst.worsen(judgement);
        gradient.validity = worst.validity;
        gradient.limit = worst.limit;
    }
    void add(GradientNorm& gradient, double square) const {
        // Where tokens are all but equal, rounding can leave less than 0 of W_k's.
        if (square < 0.0) square = 0.0;
        judge(gradient, path.judgement());
        if (std::isnan(square)) judge(gradient, {Validity::fails, Limit::no_theory});
        if (gradient.validity == Validity::fails && square != 0.0) square = not_available;
        gradient.norm = inputs_ == 1.0 ? square : gradient.norm + square;
    }
    void add(NormGradients& norm, const NormSquares& squares) const {
        add(norm.gain, squares.gain);
        add(norm.bias, squares.bias);
    }
    /// The block's norms and gates, and behind them those inside the sublayer.
    void add(SublayerReport& report, const BlockMoments& block, const SublayerMoments& sublayer) const {
        std::size_t norm = 0, gate = 0;
        for (const std::vector<NormSquares>* norms : {&block.norms, &sublayer.inner_norms})
            for (const NormSquares& squares : *norms) add(report.norms[norm++], squares);
        for (std::size_t g = 0; g < block.own_gates(); ++g) add(report.gates[gate++].gradient, block.gates[g]);
        for (const double square : sublayer.inner_gates) add(report.gates[gate++].gradient, square);
    }
    static void add_branch(SublayerReport& report, double square) {
        report.branch_square = std::isnan(report.branch_square) ? square : report.branch_square + square;
    }
    static void add(StreamMoments& moments, const TokenLayout& layout, const TokenKernel& kernel) {
        const double trace = layout.trace(kernel);
        add(moments.second_moment, trace / layout.tokens());
        const double pairs = static_cast<double>(layout.sequence() - 1) * trace;
        add(moments.token_correlation, pairs != 0.0 ? (layout.total_within(kernel) - trace) / pairs : 0.0);
    }
    static void add_gradient(StreamMoments& moments, const TokenLayout& layout, const TokenKernel& gradient) {
        add(moments.gradient_second_moment, layout.trace(gradient) / layout.tokens());
    }

    void finish(GradientNorm& gradient) {
        overflow_ = overflow_ || std::isinf(gradient.norm);
        gradient.norm = std::sqrt(gradient.norm / inputs_);
        // What vanishes does so for a reason of its own, which no limit of the theory changes.
        if (gradient.norm == 0.0) gradient.validity = Validity::holds, gradient.limit = Limit::none;
    }
    void finish(NormGradients& norm) { finish(norm.gain), finish(norm.bias); }
    void finish(StreamMoments& stream) {
        for (Moment* m : {&stream.second_moment, &stream.token_correlation, &stream.gradient_second_moment}) {
            m->value /= inputs_;
            overflow_ = overflow_ || !std::isfinite(m->value);
        }
    }
    void finish(SublayerReport& sublayer) {
        for (NormGradients& norm : sublayer.norms) finish(norm);
        for (GateGradient& gate : sublayer.gates) finish(gate.gradient);
        sublayer.branch_square /= inputs_;
        finish(sublayer.stream);
    }
    void finish(LayerReport& l) {
        for (GradientNorm* g : {&l.wq, &l.wk, &l.wv, &l.wo, &l.w1, &l.w2, &l.bq, &l.bk, &l.bv, &l.bo, &l.b1, &l.b2})
            finish(*g);
        finish(l.attention), finish(l.feed_forward);
    }
    void finish(CrossAttentionReport& c) {
        for (GradientNorm* g : {&c.wq, &c.wk, &c.wv, &c.wo, &c.bq, &c.bk, &c.bv, &c.bo}) finish(*g);
        finish(static_cast<SublayerReport&>(c));
    }
    void finish(Moment& moment) const { moment.value /= inputs_; }

    /// Whether a second moment left the range of double precision, so far.
    bool overflow() const { return overflow_; }

    /// What limits every number, once all are finished; and a sentence for each limit that the report is near. Those of
    /// the scores and of overflow have more to say, and are the caller's.
    template <class Report>
    void conclude(Report& report) const {
        std::vector<Limit> seen;
        for_each_entry(report, [&](const std::string&, auto& entry) {
            if constexpr (requires { entry.validity; }) {
                if (entry.norm == 0.0 || (std::isnan(entry.norm) && entry.validity == Validity::holds)) return;
                if (overflow_) entry.validity = Validity::fails, entry.limit = Limit::overflow;
                if (entry.validity == Validity::fails) entry.norm = not_available;
                else if (is_narrow(report.model.width))
                    entry.validity = Validity::less_certain, entry.limit = Limit::narrow;
                seen.push_back(entry.limit);
            }
        });
        for (const Limit limit : {Limit::no_norm_at_end, Limit::narrow, Limit::many_tokens, Limit::aligned_tokens})
            if (std::find(seen.begin(), seen.end(), limit) != seen.end()) report.warnings.push_back(explain(limit));
    }

private:
    double inputs_ = 0.0;
    bool overflow_ = false;
};

}  // namespace normplace::detail
