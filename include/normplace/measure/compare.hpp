// SPDX-License-Identifier: BSD-3-Clause
//
// A prediction beside its measurement: the ratio of every gradient norm, how good the prediction is on the whole and
// where it is worst, and the table that shows it.
//
//     std::cout << compare(predict<PreLN>(model), measure<PreLN>(model, {.seeds = 32}));
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/report.hpp>
#include <normplace/detail/table_text.hpp>

namespace normplace {

/// One quantity, predicted and measured. Everything is NaN where the model has no such parameter.
struct Compared {
    std::string name;  ///< "layers.3.attention.query.weight", as in `for_each_quantity`
    double predicted = not_available;
    double measured = not_available;
    double standard_error = not_available;  ///< of `measured`

    /// predicted / measured; NaN where either is missing or both are 0
    double ratio() const { return predicted / measured; }
};

/// How the ratios of a group of quantities are spread.
struct RatioSummary {
    double geometric_mean = not_available;
    double worst = not_available;  ///< the ratio furthest from 1, in either direction
    std::string worst_name;
    std::size_t count = 0;  ///< quantities that have a ratio
};

struct Comparison {
    GradientReport predicted, measured;
    std::vector<Compared> quantities;  ///< in the order of `for_each_quantity`
    RatioSummary matrices;             ///< W_v, W_o, W_1 and W_2 of all layers
    RatioSummary query_key;            ///< W_q and W_k of all layers
    Compared readout, loss;
};

namespace detail {

inline RatioSummary ratio_summary(const std::vector<Compared>& quantities, bool query_key) {
    RatioSummary summary;
    double sum = 0.0, furthest = -1.0;
    for (const Compared& q : quantities) {
        const bool weight = q.name.starts_with("layers.") && q.name.ends_with(".weight");
        const bool is_query_key = q.name.ends_with(".query.weight") || q.name.ends_with(".key.weight");
        const double log_ratio = std::log(q.ratio());
        if (!weight || is_query_key != query_key || std::isnan(log_ratio)) continue;
        sum += log_ratio;
        ++summary.count;
        if (std::abs(log_ratio) > furthest) {
            furthest = std::abs(log_ratio);
            summary.worst = q.ratio();
            summary.worst_name = q.name;
        }
    }
    if (summary.count > 0) summary.geometric_mean = std::exp(sum / static_cast<double>(summary.count));
    return summary;
}

inline void require_same(const char* what, const std::string& predicted, const std::string& measured) {
    if (predicted != measured)
        throw std::invalid_argument(std::string("compare: the reports are of different models: ") + what + " " +
                                    predicted + " is predicted and " + measured + " is measured");
}

inline void require_same_model(const GradientReport& predicted, const GradientReport& measured) {
    const ReferenceModel &a = predicted.model, &b = measured.model;
    const auto yes_or_no = [](bool value) { return std::string(value ? "yes" : "no"); };
    const auto norm_kind = [](NormKind kind) { return std::string(name(kind)); };
    require_same("placement", predicted.placement, measured.placement);
    require_same("formula", predicted.formula, measured.formula);
    require_same("layers", std::to_string(a.layers), std::to_string(b.layers));
    require_same("width", std::to_string(a.width), std::to_string(b.width));
    require_same("heads", std::to_string(a.heads), std::to_string(b.heads));
    require_same("feed_forward", std::to_string(a.feed_forward), std::to_string(b.feed_forward));
    require_same("sequence", std::to_string(a.sequence), std::to_string(b.sequence));
    require_same("batch", std::to_string(a.batch), std::to_string(b.batch));
    require_same("vocabulary", std::to_string(a.vocabulary), std::to_string(b.vocabulary));
    require_same("causal", yes_or_no(a.causal), yes_or_no(b.causal));
    require_same("norm", norm_kind(a.norm), norm_kind(b.norm));
    require_same("epsilon", formatted("%g", a.epsilon), formatted("%g", b.epsilon));
    require_same("activation", a.activation.name, b.activation.name);
    require_same("initialization", std::string(a.initialization.name()), std::string(b.initialization.name()));
    if (!(a.activation == b.activation) || !(a.initialization == b.initialization))
        throw std::invalid_argument(
            "compare: the reports are of different models: their activations or initializations share a name and "
            "differ");
    require_same("output_projection", yes_or_no(a.output_projection), yes_or_no(b.output_projection));
}

/// "W_q of layer 3" for "layers.2.attention.query.weight": tables count layers from 1, as papers do.
inline std::string short_name(const std::string& name) {
    static constexpr std::array<std::pair<const char*, const char*>, 6> symbols{{{".query.weight", "W_q"},
                                                                                 {".key.weight", "W_k"},
                                                                                 {".value.weight", "W_v"},
                                                                                 {".out.weight", "W_o"},
                                                                                 {".linear1.weight", "W_1"},
                                                                                 {".linear2.weight", "W_2"}}};
    for (const auto& [suffix, symbol] : symbols)
        if (name.starts_with("layers.") && name.ends_with(suffix))
            return symbol + (" of layer " + std::to_string(std::stoul(name.substr(7)) + 1));
    return name;
}

}  // namespace detail

/// Compares a prediction with a measurement of the same model.
/// @throws std::invalid_argument when the reports are of different placements or models, or `measured` is not measured
inline Comparison compare(GradientReport predicted, GradientReport measured) {
    if (measured.seeds == 0)
        throw std::invalid_argument("compare: the second report, of " + measured.placement +
                                    ", is a prediction; expected a measurement");
    detail::require_same_model(predicted, measured);
    Comparison result;
    for_each_quantity(predicted, [&](const std::string& name, double value, double) {
        Compared compared;
        compared.name = name;
        compared.predicted = value;
        result.quantities.push_back(std::move(compared));
    });
    std::size_t i = 0;
    for_each_quantity(measured, [&](const std::string& name, double value, double standard_error) {
        if (i == result.quantities.size() || result.quantities[i].name != name)
            throw std::invalid_argument("compare: the reports are of different models: '" + name +
                                        "' is measured and not predicted");
        result.quantities[i].measured = value;
        result.quantities[i++].standard_error = standard_error;
    });
    if (i != result.quantities.size())
        throw std::invalid_argument("compare: the reports are of different models: '" + result.quantities[i].name +
                                    "' is predicted and not measured");
    for (const Compared& quantity : result.quantities) {
        if (quantity.name == "readout.weight") result.readout = quantity;
        if (quantity.name == "loss") result.loss = quantity;
    }
    result.matrices = detail::ratio_summary(result.quantities, false);
    result.query_key = detail::ratio_summary(result.quantities, true);
    result.predicted = std::move(predicted);
    result.measured = std::move(measured);
    return result;
}

/// The table: gradient norms predicted and measured, their ratios and the stream, layer by layer, then the summary. At
/// most 100 columns wide, and at most 24 layers long.
inline std::ostream& operator<<(std::ostream& stream, const Comparison& comparison) {
    using namespace detail;
    const std::vector<LayerReport>&predicted = comparison.predicted.layers, &measured = comparison.measured.layers;
    const std::size_t seeds = comparison.measured.seeds;
    const double unit =
        unit_of(std::max(largest_weight_gradient(comparison.predicted), largest_weight_gradient(comparison.measured)));
    const std::vector<std::size_t> shown = shown_layers(predicted.size());

    stream << comparison.predicted.placement << "   " << comparison.predicted.formula << "\n\n"
           << "Gradient norm of each matrix, predicted | measured(standard error), " << seeds
           << (seeds == 1 ? " seed" : " seeds");
    if (unit != 1.0) stream << ", in units of " << formatted("%g", unit);
    stream << "\nlayer";
    for (std::size_t w = 0; w < 6; ++w) stream << right(weight_symbols[w], w == 0 ? 10 : 16);
    stream << '\n';
    for (const std::size_t l : shown) {
        std::string row = right(std::to_string(l + 1), 4);
        for (std::size_t w = 0; w < 6; ++w) {
            const GradientNorm &p = *weights(predicted[l])[w], &m = *weights(measured[l])[w];
            row += right(short_number(p.norm / unit), 6) + certainty(p);
            row += left(number(m.norm / unit, m.standard_error / unit), 9);
        }
        stream << row.substr(0, row.find_last_not_of(' ') + 1) << '\n';
    }
    stream << explain_marks(comparison.predicted);

    bool marked = false;
    stream << "\nPredicted / measured, and the stream after the layer, predicted | measured\nlayer ";
    for (const char* symbol : weight_symbols) stream << right(symbol, 6) << ' ';
    stream << "      second moment    token correlation\n";
    for (const std::size_t l : shown) {
        stream << right(std::to_string(l + 1), 4) << "  ";
        for (std::size_t w = 0; w < 6; ++w) {
            const GradientNorm &p = *weights(predicted[l])[w], &m = *weights(measured[l])[w];
            const double ratio = p.norm / m.norm;
            const bool off = std::abs(ratio - 1.0) > 0.05 && std::abs(p.norm - m.norm) > 2.0 * m.standard_error;
            stream << right(std::isfinite(ratio) ? formatted("%.3f", ratio) : "-", 6) << (off ? '*' : ' ');
            marked = marked || off;
        }
        const StreamMoments &p = predicted[l].feed_forward.stream, &m = measured[l].feed_forward.stream;
        stream << right(number(p.second_moment.value), 10) << ' ' << left(number(m.second_moment.value), 10)
               << right(correlation_text(p.token_correlation.value), 9) << ' '
               << correlation_text(m.token_correlation.value) << '\n';
    }
    if (shown.size() < predicted.size()) stream << shown.size() << " of " << predicted.size() << " layers are shown.\n";
    if (marked) stream << "* off by more than 5 % and more than two standard errors\n";

    const auto summary = [&](const char* what, const RatioSummary& s) {
        if (s.count == 0) return;
        stream << left(what, 20) << formatted("geometric mean %.3f, worst %.3f (", s.geometric_mean, s.worst)
               << short_name(s.worst_name) << ")\n";
    };
    const auto single = [&](const char* what, const Compared& c) {
        if (!std::isfinite(c.ratio())) return;
        stream << left(what, 20) << formatted("%.3f (%.4g against %.4g", c.ratio(), c.predicted, c.measured)
               << (std::isfinite(c.standard_error) ? formatted(" +- %.2g)", c.standard_error) : ")") << '\n';
    };
    stream << "\nPredicted / measured\n";
    summary("  W_v W_o W_1 W_2", comparison.matrices);
    summary("  W_q W_k", comparison.query_key);
    single("  readout", comparison.readout);
    single("  loss", comparison.loss);
    return stream;
}

}  // namespace normplace
