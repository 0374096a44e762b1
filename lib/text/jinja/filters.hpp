#pragma once

#include <vector>

#include "text/jinja/interpreter.hpp"

namespace tpinfer::jinja::filters {

using Apply = Value (*)(Interpreter&, const Value&, const Arguments&);

// filters_text.cpp
Value upper(Interpreter&, const Value&, const Arguments&);
Value lower(Interpreter&, const Value&, const Arguments&);
Value capitalize(Interpreter&, const Value&, const Arguments&);
Value title(Interpreter&, const Value&, const Arguments&);
Value trim(Interpreter&, const Value&, const Arguments&);
Value replace(Interpreter&, const Value&, const Arguments&);
Value indent(Interpreter&, const Value&, const Arguments&);
Value string(Interpreter&, const Value&, const Arguments&);
Value safe(Interpreter&, const Value&, const Arguments&);
Value escape(Interpreter&, const Value&, const Arguments&);
Value tojson(Interpreter&, const Value&, const Arguments&);
Value join(Interpreter&, const Value&, const Arguments&);
Value format(Interpreter&, const Value&, const Arguments&);

// filters_number.cpp
Value abs(Interpreter&, const Value&, const Arguments&);
Value to_int(Interpreter&, const Value&, const Arguments&);
Value to_float(Interpreter&, const Value&, const Arguments&);
Value round(Interpreter&, const Value&, const Arguments&);
Value sum(Interpreter&, const Value&, const Arguments&);

// filters_items.cpp
Value length(Interpreter&, const Value&, const Arguments&);
Value otherwise(Interpreter&, const Value&, const Arguments&);  // default
Value first(Interpreter&, const Value&, const Arguments&);
Value last(Interpreter&, const Value&, const Arguments&);
Value list(Interpreter&, const Value&, const Arguments&);
Value items(Interpreter&, const Value&, const Arguments&);
Value reverse(Interpreter&, const Value&, const Arguments&);
Value batch(Interpreter&, const Value&, const Arguments&);
Value slice(Interpreter&, const Value&, const Arguments&);
Value attr(Interpreter&, const Value&, const Arguments&);

// filters_order.cpp
Value sort(Interpreter&, const Value&, const Arguments&);
Value dictsort(Interpreter&, const Value&, const Arguments&);
Value unique(Interpreter&, const Value&, const Arguments&);
Value min(Interpreter&, const Value&, const Arguments&);
Value max(Interpreter&, const Value&, const Arguments&);

// filters_lazy.cpp
Value map(Interpreter&, const Value&, const Arguments&);
Value select(Interpreter&, const Value&, const Arguments&);
Value reject(Interpreter&, const Value&, const Arguments&);
Value selectattr(Interpreter&, const Value&, const Arguments&);
Value rejectattr(Interpreter&, const Value&, const Arguments&);

/// The attribute path of `attribute="a.b.0"`; none is the item itself.
class AttributePath {
 public:
  AttributePath(const Value* attribute, Budget& budget);
  /// `missing`, where given, stands for every part that is undefined.
  Value of(Interpreter& interpreter, Value item, const Value* missing = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// What case is ignored by: a text in lower case, anything else as it is.
Value without_case(const Value& value, Budget& budget);

}  // namespace tpinfer::jinja::filters
